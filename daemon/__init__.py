"""The process: commands, the writer, the socket, configuration, logs, the command line."""
