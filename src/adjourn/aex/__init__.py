"""The contract language: texts that say what an agent may do, what is to be reached, and by which steps.

Must never: know a store, a session or a wire; read anything but the file it is given.

A text becomes a lossless tree (`tree`), then a document (`ast`, by `parser`), then findings (`check`) and
permissions (`permissions`, `layers`). Names here are loaded when they are first used.
"""


def __getattr__(name: str) -> object:
    from adjourn._public import attribute

    return attribute(__name__, name)


def __dir__() -> list[str]:
    from adjourn._public import attribute

    return attribute(__name__, "__all__")
