"""Answers questions about code: text, files, definitions, references, structure, meaning and impact.

Each function of a search tool returns that tool's reply. Must never: change a file of the project.
"""
