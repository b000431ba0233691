"""MCP servers behind one HTTP address: each call decided on and recorded by the same relay as behind `adjourn proxy`.

Owns: HTTP on both sides, the owners of client sessions, and the life of the process. Must never: decide on a call itself.
"""
