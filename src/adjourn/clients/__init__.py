"""A client process at work: its store, its task and its session; also for hooks, which live for one call.

Owns: opening and closing what a client uses. Must never: speak a client's protocol.
"""
