"""The command line: a client of the socket, quick to start."""
