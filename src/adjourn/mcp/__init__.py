"""The wire: MCP's newline-delimited JSON-RPC frames, decoded as strictly as the strictest peer would."""
