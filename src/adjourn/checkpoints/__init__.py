"""Checkpoints of a task: the signed event, its folder and its page, automatic ones, and rolling back to one.

Owns: everything that a checkpoint writes outside of the event log. Must never: decide whether a call is permitted.
"""
