"""This machine and its user: clock, ids, keys, processes, files of a workspace, git, HTTP."""
