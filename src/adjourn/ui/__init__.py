"""The web page on this machine: where a person looks at the work, and answers what waits for them.

Each page is one module of queries in `pages`, and one template of the same name.

The pages read the store as commands do. The server listens on loopback alone.
"""
