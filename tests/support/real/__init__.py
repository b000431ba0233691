"""What the tests against real MCP servers and real MCP clients are made of."""
