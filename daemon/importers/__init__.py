"""Readers of foreign files: each turns a file into lines to remember, purely."""
