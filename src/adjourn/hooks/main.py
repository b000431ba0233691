"""`adjourn hook`: what a client tells or asks on standard input, one answer on standard output.

The gate (`PreToolUse`) fails closed. Whatever keeps it from deciding (no input, no store, a defect) is a message on stderr and exit
code 2, which the client takes for a refusal. Everywhere else that code would hold the client up, for a note that was not taken: there
a failure is a message and exit code 1. Every other answer is exit code 0.

Owns: which event goes where, exit codes. Must never: decide.
"""

from __future__ import annotations

import os
import sys

from adjourn.errors import UsageError
from adjourn.hooks import claude_code
from adjourn.hooks.claude_code import Request
from adjourn.hooks.options import parse

REFUSED, FAILED = 2, 1
_READ = 1024 * 1024


def run(arguments: list[str]) -> int:
    """Answer; returns the exit code. Whatever goes wrong is a refusal: clients take every other code than 2 for leave to go on."""
    try:
        return _answered(arguments)
    except BaseException as error:
        sys.stderr.write(f"adjourn: {error or type(error).__name__}\n")
        return REFUSED


def _answered(arguments: list[str]) -> int:
    request = claude_code.decode(_read())
    if request.hook_event_name != claude_code.GATE:
        return _told(arguments, request)
    from adjourn.hooks.gate import decide  # noqa: PLC0415  # an event needs no gate, the gate no event

    options = parse(arguments)
    _write(
        claude_code.answer(
            decide(options, request, root_of(request)), options["--client"], options["--format"]
        )
    )
    return 0


def _told(arguments: list[str], request: Request) -> int:
    from adjourn.hooks.events import HANDLERS  # noqa: PLC0415  # as above

    try:
        said = HANDLERS[request.hook_event_name](parse(arguments), request, root_of(request))
    except Exception as error:  # whatever it is, it must not hold the client up
        sys.stderr.write(f"adjourn: {error or type(error).__name__}\n")
        return FAILED
    if said:
        _write(claude_code.context(request.hook_event_name, said))
    return 0


def _read() -> bytes:
    data = b""
    while len(data) <= claude_code.MAX_INPUT and (some := os.read(0, _READ)):
        data += some
    return data


def _write(line: bytes) -> None:
    while line:
        line = line[os.write(1, line) :]


def root_of(request: Request) -> str:
    """The workspace: the client's project, wherever its shell has gone meanwhile; else the folder that the call names."""
    root = os.path.realpath(os.environ.get("CLAUDE_PROJECT_DIR") or request.cwd or os.getcwd())
    if not os.path.isdir(root):
        raise UsageError(f"{root} is not a folder", "start the client in a folder that is there")
    return root
