"""The journal of a task and its meaning: ledger, decision, commit, sessions, leases, approvals, idempotency.

Owns: the one path by which events are appended. Must never: know a client's protocol or how a checkpoint is shown.
"""
