"""The journal: events, records, the LMDB log, the vault, integrity. Knows no projection.

What is written here is for ever. `ops/docs/formats.md` holds the byte tables; the docstrings of the
modules repeat the one that is theirs.
"""
