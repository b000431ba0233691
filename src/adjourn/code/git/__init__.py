"""git in one work tree: running it, session branches, changes, merges, and refs that back up discarded work.

Must never: lose uncommitted work, or know a phase.
"""
