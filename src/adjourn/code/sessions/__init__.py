"""Coding sessions on disk and in the store: checkpoint files, the journal, and which client works on which session.

Owns: the order in which a step is recorded: journal, then checkpoint, then reply. Must never: know what a phase asks for.
"""
