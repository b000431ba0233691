"""Resuming: everything that the next session learns about its task.

Owns: the resume of a checkpoint, pending work and its brief, imports of folders, lists for agents. Must never: run a tool.
"""
