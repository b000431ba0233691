"""The edge between an MCP client and an MCP server over stdio: gate, relay, meta-tools."""
