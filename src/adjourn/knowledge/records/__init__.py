"""Continuation Records: create, update, decide on, compare, merge, prove and transfer them.

`store` has the operations. `writer` writes versions and delivers events, `version_log` keeps the versions in a `Store`, `ancestry`
reads many of them, `effects` claims and settles what tools do (`effect_lookup` finds it in the task's chain), `proofs` makes what
is checked without the store, `transfer` takes records from one store to another, `agent_notes` records what an agent notes.
"""
