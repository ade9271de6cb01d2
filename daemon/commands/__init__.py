"""Commands: one file a verb family, each with pure `decide` functions."""
