"""Checkpoints of a task: the signed event, its folder and its page, automatic ones, and rolling back to one."""
