"""Persistence of facts: streams of hashed entries, named refs, documents by their digest.

Owns: the public names of the storage layer; importing this package imports neither sqlite3 nor psycopg. Must never: know an event
kind.
"""


def __getattr__(name: str) -> object:
    from adjourn._public import attribute

    return attribute(__name__, name)


def __dir__() -> list[str]:
    from adjourn._public import attribute

    return attribute(__name__, "__all__")
