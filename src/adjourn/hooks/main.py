"""`adjourn hook`: what a client tells or asks on standard input, one answer on standard output.

The gate (`PreToolUse`) fails closed. Whatever keeps it from deciding (no input, no store, a defect) is a message on stderr and exit
code 2, which the client takes for a refusal. Everywhere else that code would hold the client up, for a note that was not taken: there
a failure is a message and exit code 1. Every other answer is exit code 0.

Owns: which event goes where, exit codes. Must never: decide.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps, at a tenth of its start
import os
from collections.abc import Callable

from adjourn.hooks import ANSWER_SECONDS, FAILED, REFUSED, claude_code, tell
from adjourn.hooks.claude_code import HookRequest
from adjourn.hooks.options import parse

_READ = 1024 * 1024


def run(arguments: list[str], on_event: Callable[[], None] = lambda: None) -> int:
    """Answer; returns the exit code. Whatever goes wrong is a refusal: clients take every other code than 2 for leave to go on.

    `on_event` is called when it turns out that no call waits for leave; then what goes wrong holds nobody up.
    """
    code = REFUSED
    try:
        data = _read()
        if claude_code.waits_for_leave(data):
            _signal.signal(_signal.SIGALRM, _too_late)
            _signal.alarm(ANSWER_SECONDS)
            return _decided(arguments, claude_code.decode(data))
        code = FAILED
        on_event()
        return _told(arguments, claude_code.decode(data))
    except BaseException as error:
        tell(error)
        return code


def _too_late(*_: object) -> None:
    raise TimeoutError(f"the call could not be decided on within {ANSWER_SECONDS} s")


def _decided(arguments: list[str], request: HookRequest) -> int:
    from adjourn.hooks.gate import decide  # noqa: PLC0415  # an event needs no gate, the gate no event
    from adjourn.hooks.workspace import root_of  # noqa: PLC0415  # it loads the language

    options = parse(arguments)
    answer = decide(options, request, root_of(request.cwd))
    _write(claude_code.answer(answer, options["--client"], options["--format"]))
    return 0


def _told(arguments: list[str], request: HookRequest) -> int:
    from adjourn.hooks.events import HANDLERS  # noqa: PLC0415  # as above
    from adjourn.hooks.workspace import root_of  # noqa: PLC0415

    said = HANDLERS[request.hook_event_name](parse(arguments), request, root_of(request.cwd))
    if said:
        begins = request.hook_event_name == "SessionStart"
        _write(claude_code.context(request.hook_event_name, said) if begins else claude_code.message(said))
    return 0


def _read() -> bytes:
    parts, size = [], 0
    while size <= claude_code.MAX_INPUT and (some := os.read(0, _READ)):
        parts.append(some)
        size += len(some)
    return b"".join(parts)


def _write(line: bytes) -> None:
    while line:
        line = line[os.write(1, line) :]
