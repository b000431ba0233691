"""What passes between one MCP client and one MCP server, whichever way it travels: decided on, recorded, settled, and answered.

An edge (`proxy`: two pipes) gives it lines of either side, an event loop and two outlets.

Owns: the outcome of each message. Must never: read or write a pipe or a socket.
"""
