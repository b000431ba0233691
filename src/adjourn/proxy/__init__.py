"""The edge between an MCP client and an MCP server over stdio: two pipes, one loop, the life of the server."""
