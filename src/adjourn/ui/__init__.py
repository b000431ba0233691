"""The web page on this machine: where a person looks at the work, and answers what waits for them.

Each page is one module of queries in `pages`, and one template of the same name.

Owns: serving these pages to one browser. Must never: read the store in a way of its own, or listen on more than loopback.
"""
