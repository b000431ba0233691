"""Language servers: programs that resolve names exactly. `servers` is what the search asks.

Must never: know the index.
"""
