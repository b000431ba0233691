"""The documents of an agent's knowledge as data types, with their limits. Pure: no store, no host, no I/O."""
