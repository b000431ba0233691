"""adjourn: an AI agent's work outlives the session that did it.

Owns: the public names, each loaded when it is first used (PEP 562). Must never: import anything, for hooks start with it.
"""

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    from adjourn._public import attribute

    return attribute(__name__, name)


def __dir__() -> list[str]:
    from adjourn._public import attribute

    return attribute(__name__, "__all__")
