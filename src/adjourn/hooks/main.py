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

import msgspec

from adjourn.clients.options import parse_hook
from adjourn.hooks import ANSWER_SECONDS, FAILED, REFUSED, claude_code, tell
from adjourn.hooks.claude_code import HookRequest

TYPE_CHECKING = False  # as in adjourn/__init__.py
if TYPE_CHECKING:
    from adjourn.hooks.events import EventText
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
        request = _in_existing_folder(claude_code.decode(data))
        options, workspace = parse_hook(arguments), find_workspace(request.cwd)
        if options["--outside"] != "pass" or not is_outside(workspace, options):
            (_decide if waits else _record)(options, request, workspace)
        elif request.hook_event_name == "SessionStart":
            from adjourn.hooks.events import began_outside  # a session starts

            _say(request, began_outside(options, request, workspace))
    except BaseException as error:
        tell(error)
        return code
    return 0


def _time_out(*_: object) -> None:
    raise TimeoutError(f"the call could not be decided on within {ANSWER_SECONDS} s")


def _in_existing_folder(request: HookRequest) -> HookRequest:
    """The request, with the hook's own folder where the client cannot spell its name: JSON has no bytes that are not UTF-8."""
    if "\ufffd" not in request.cwd or os.path.isdir(request.cwd):
        return request
    return msgspec.structs.replace(request, cwd=os.getcwd())


def find_workspace(working_directory: str) -> Workspace:
    """The workspace of the project that the client names, else that of the folder that its shell is in ("": that the hook is in).

    An agent chooses that folder, and can create a policy or a store in any folder of the workspace: the outermost one counts. An agent is
    assumed not to write above the workspace, except where everybody can, or another user did: then the hook refuses. Raises `UsageError`,
    `RefusedError`.
    """
    from adjourn.errors import RefusedError, UsageError
    from adjourn.host.finding import workspace_of

    named = os.environ.get("CLAUDE_PROJECT_DIR", "")
    here = named or working_directory or os.getcwd()
    if not os.path.isdir(here):
        raise UsageError(f"{here} is not a folder", "start the client in an existing folder")
    workspace = workspace_of(here, outermost=not named)
    if workspace.skipped:
        raise RefusedError(
            workspace.skipped[0], "remove its policy or store, or name the project in CLAUDE_PROJECT_DIR"
        )
    return workspace


def is_outside(workspace: Workspace, options: dict[str, str]) -> bool:
    """Whether neither the client nor this hook works in a workspace, and no policy was named."""
    from adjourn.host.finding import workspace_of

    return not (
        workspace.is_found or options["--policy"] or options["--contract"] or workspace_of(outermost=True).is_found
    )


def _decide(options: dict[str, str], request: HookRequest, workspace: Workspace) -> None:
    """Answer a client that waits for a decision on a call."""
    from adjourn.hooks.gate import decide  # not needed for an event

    answer = decide(options, request, workspace)
    _write(claude_code.answer(answer, options["--client"], options["--format"]))


def _record(options: dict[str, str], request: HookRequest, workspace: Workspace) -> None:
    """Do what an event requires, and print the text that results, if any."""
    from adjourn.hooks.events import HANDLERS  # not needed for a decision

    _say(request, HANDLERS[request.hook_event_name](options, request, workspace))


def _say(request: HookRequest, text: EventText) -> None:
    if text.person or text.agent:
        _write(claude_code.event_answer(request.hook_event_name, text.person, text.agent))


def _read() -> bytes:
    if os.isatty(0):
        _signal.signal(
            _signal.SIGINT, _signal.SIG_DFL
        )  # Python would notice one that comes just before the read after it
        os.write(2, _WAITS)
    parts, size = [], 0
    while size <= claude_code.MAX_INPUT and (part := os.read(0, _READ)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _write(line: bytes) -> None:
    while line:
        line = line[os.write(1, line) :]
