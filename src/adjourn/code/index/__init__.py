"""The index of a repository: one SQLite file, keyed by content, that can be deleted at any time.

Must never: make a caller wait, or be the only place where something is known.
"""
