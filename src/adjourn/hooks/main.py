"""`adjourn hook`: a request or an event of a client on standard input, one answer on standard output.

The gate (`PreToolUse`) fails closed. Whatever prevents a decision (no input, no store, a defect) is a message on stderr and exit code
2, which the client takes as a refusal. For other events that code would block the client only because an event was not recorded: there
a failure is a message and exit code 1. Every other answer has exit code 0.

Owns: which event goes where, exit codes. Must never: decide.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps, at a tenth of its start
import os
from collections.abc import Callable

from adjourn.clients.options import parse_hook
from adjourn.hooks import ANSWER_SECONDS, FAILED, REFUSED, claude_code, tell
from adjourn.hooks.claude_code import HookRequest

TYPE_CHECKING = False  # as in adjourn/__init__.py
if TYPE_CHECKING:
    from adjourn.host.finding import Workspace

_READ = 1024 * 1024
_WAITS = b"adjourn: waiting for one call as JSON on stdin, as a client's hook gives it (Ctrl-D ends the input, Ctrl-C leaves)\n"


def run(arguments: list[str], on_event: Callable[[], None] = lambda: None) -> int:
    """Answer, and return the exit code. Any failure is a refusal: clients take every code but 2 as permission to continue.

    `on_event` is called when no call waits for a decision; a failure then blocks nothing.
    """
    code = REFUSED
    try:
        data = _read()
        waits = claude_code.waits_for_leave(data)
        if waits:
            _signal.signal(_signal.SIGALRM, _time_out)
            _signal.alarm(ANSWER_SECONDS)
        else:
            code = FAILED
            on_event()
        request = claude_code.decode(data)
        from adjourn.hooks.workspace import find, is_outside  # a failure to load is a refusal

        options, found = parse_hook(arguments), find(request.cwd)
        if options["--outside"] != "pass" or not is_outside(found, options):
            (_decide if waits else _record)(options, request, found)
    except BaseException as error:
        tell(error)
        return code
    return 0


def _time_out(*_: object) -> None:
    raise TimeoutError(f"the call could not be decided on within {ANSWER_SECONDS} s")


def _decide(options: dict[str, str], request: HookRequest, found: Workspace) -> None:
    """Answer a client that waits for a decision on a call."""
    from adjourn.hooks.gate import decide  # not needed for an event

    answer = decide(options, request, found)
    _write(claude_code.answer(answer, options["--client"], options["--format"]))


def _record(options: dict[str, str], request: HookRequest, found: Workspace) -> None:
    """Do what an event requires, and print the text that results, if any."""
    from adjourn.hooks.events import HANDLERS  # not needed for a decision

    text = HANDLERS[request.hook_event_name](options, request, found)
    if text.person or text.agent:
        _write(claude_code.event_answer(request.hook_event_name, text.person, text.agent))


def _read() -> bytes:
    if os.isatty(0):
        _signal.signal(
            _signal.SIGINT, _signal.SIG_DFL
        )  # Python would notice one that comes just before the read after it
        os.write(2, _WAITS)
    parts, size = [], 0
    while size <= claude_code.MAX_INPUT and (some := os.read(0, _READ)):
        parts.append(some)
        size += len(some)
    return b"".join(parts)


def _write(line: bytes) -> None:
    while line:
        line = line[os.write(1, line) :]
