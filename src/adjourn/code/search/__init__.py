"""Answers questions about code: text, files, definitions, references, structure, meaning and impact.

Owns: one function per search tool, each returning the tool's reply. Must never: change a file of the project or know a session.
"""
