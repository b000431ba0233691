"""The index of a repository: one SQLite file, keyed by content, that can be deleted at any time.

Owns: its schema, keeping it up to date, and reading it. Must never: be waited for, or be the only place where something is known.
"""
