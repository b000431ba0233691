"""Coding sessions: the phases of the procedure, what each requires, what a submission leads to, and where sessions are kept.

Must never: know the protocol of a client.
"""
