"""The code-intelligence server: search, symbols, meaning, and guided sessions in a repository.

Owns: one edge of adjourn; its folders are layers: server, sessions, workflow, search, index and git, model. Must never: be imported by
the core or by another edge.
"""
