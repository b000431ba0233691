"""git in one work tree: running it, session branches, changes, merges, and refs that back up discarded work.

Owns: every git command that the code server runs. Must never: lose uncommitted work, or know a phase.
"""
