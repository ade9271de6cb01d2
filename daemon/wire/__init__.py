"""The types of the socket: what a request may hold, what an answer holds."""
