"""The room of the nine relays and their cycle. Each will read a view and return events."""
