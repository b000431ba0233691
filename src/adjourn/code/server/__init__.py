"""The MCP server: the tools, what clients see of them, the size cap of replies, and the transport.

Must never: decide what a phase permits.
"""
