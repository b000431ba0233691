"""The vocabulary of the code server: session state and its text form, the repository, deadlines and words.

Owns: types and pure rules that every other part uses. Must never: run git, search, or import another part of the code server.
"""
