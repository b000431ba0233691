"""Language servers: programs that resolve names exactly. `servers` is what the search asks.

Owns: starting, asking and bounding them. Must never: know the index.
"""
