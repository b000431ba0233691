"""Hooks of a client: a question before each call, an event after it (docs/reference/hook.md).

Owns: exit codes and error messages. Must never: import anything, for every hook starts with this module.
"""

import os

ANSWER_SECONDS = 25
"""Seconds that a decision may take. With the settings of `adjourn init` a client waits 30 s, and then continues without an answer."""
FAILED, REFUSED = 1, 2
"""The exit codes of an event that could not be handled, and of a call without a decision."""


def tell(problem: object) -> None:
    """Print a message on standard error. A failure to print changes no answer."""
    text = getattr(problem, "lines", "") or str(problem) or type(problem).__name__
    text = "interrupted" if isinstance(problem, KeyboardInterrupt) else text
    if not (text.isascii() and text.replace("\n", "").isprintable()):
        from adjourn.text.redact import visible_lines  # every hook starts with this module

        text = visible_lines(text)
    try:  # noqa: SIM105  # contextlib is dearer than all of this
        os.write(2, f"adjourn: {text}\n".encode(errors="replace"))
    except OSError:
        pass
