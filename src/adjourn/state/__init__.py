"""Meaning: what a chain of events amounts to. Pure: no I/O, no clock of its own."""
