"""A client's hooks: what it asks before each call, and tells after (docs/reference/hook.md).

Owns: exit codes, and saying what went wrong. Must never: import anything, for every hook starts with it.
"""

import os

ANSWER_SECONDS = 25
"""How long deciding on a call may take. A client waits for 30 s as `adjourn init` sets it, and goes on without an answer then."""
FAILED, REFUSED = 1, 2
"""The exit codes of an event that could not be dealt with, and of a call that could not be decided on."""


def tell(problem: object) -> None:
    """Say it on standard error. That nobody can read there changes no answer."""
    text = str(problem) or type(problem).__name__
    if not (text.isascii() and text.isprintable()):
        from adjourn.text.terminal import visible_lines  # noqa: PLC0415  # every hook starts with this module

        text = visible_lines(text)
    try:  # noqa: SIM105  # contextlib is dearer than all of this
        os.write(2, f"adjourn: {text}\n".encode(errors="replace"))
    except OSError:
        pass
