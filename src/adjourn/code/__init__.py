"""Code intelligence: search, symbols and meaning in a repository.

Owns: one edge of adjourn. A plain synchronous library; the server speaks MCP. Must never: be imported by the core or another edge.
"""
