"""The MCP server: tools, their inputs and handlers, the size cap of replies, and the transport.

Owns: everything that a client sees of the protocol. Must never: decide what a phase permits.
"""
