"""`adjourn hook`: one call on standard input, one answer on standard output, by the rules of the workspace.

It fails closed. Whatever keeps it from deciding (no input, no store, a defect) is a message on stderr and exit code 2,
which the client takes for a refusal; every other answer is exit code 0.

Owns: the order of a decision, exit codes. Must never: allow what could not be written down.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from adjourn.engine.contract import BrokenContractError, read_contract
from adjourn.engine.decide import Ask, Block, Call, Forward
from adjourn.engine.desk import Setting
from adjourn.engine.protect import protected_path
from adjourn.engine.visitor import READING_VERBS, Visitor, arguments_digest
from adjourn.errors import RefusedError, UsageError
from adjourn.hooks import claude_code
from adjourn.hooks.claude_code import Request
from adjourn.hooks.options import parse
from adjourn.log import kinds
from adjourn.state.redact import preview

CLIENT = "claude-code"
BLOCK = 2
_READ = 1024 * 1024


class Answer(NamedTuple):
    """allow, deny or ask; "" leaves it to the client. `reason` names the rule, file and line."""

    decision: str
    reason: str = ""


def run(arguments: list[str]) -> int:
    """Answer; returns the exit code. Raises `AdjournError` for what `adjourn.__main__` turns into a refusal."""
    options = parse(arguments)
    request = claude_code.decode(_read())
    given = _decide(options, request)
    line = claude_code.answer(given.decision, given.reason, options["--format"])
    while line:
        line = line[os.write(1, line) :]
    return 0


def _read() -> bytes:
    data = b""
    while len(data) <= claude_code.MAX_INPUT and (some := os.read(0, _READ)):
        data += some
    return data


def _decide(options: dict[str, str], request: Request) -> Answer:
    root = _root(request)
    tool = claude_code.tool_of(request.tool_name)
    try:
        contract = read_contract(root, options["--policy"], options["--contract"])
    except BrokenContractError as error:
        if options["--allow-no-policy"] and all(finding.code == "AEX135" for finding in error.findings):
            return _unwritten(root, tool, request)
        return Answer("deny", _findings(error))
    setting = Setting(root=root, contract=contract, store=options["--store"], task=options["--task"])
    visitor = Visitor(setting, CLIENT, _process_of_client())
    server, _ = claude_code.mcp_tool(request.tool_name)
    if server and server in options["--proxied"].split(",") and visitor.behind_proxy():
        return Answer("")  # the proxy decides, counts and writes it down
    return _by_rules(visitor, tool, request)


def _by_rules(visitor: Visitor, tool: str, request: Request) -> Answer:
    desk = visitor.desk
    arguments = claude_code.arguments_of(request)
    effectful = tool not in READING_VERBS
    call = Call(
        tool=tool,
        digest=arguments_digest(request.tool_input or {}),
        effectful=effectful,
        arguments=preview(request.tool_input or {}) if effectful else "",
        given=arguments,
    )
    try:
        if effectful and (place := protected_path(arguments, desk.setting.root, desk.protected)):
            visitor.note(kinds.ToolDenied(reason="protected", rule=place, tool=tool))
            return _protected(tool, place)
        decision, rule = visitor.ask(call, request.cwd)
    except BrokenContractError as error:
        return Answer("deny", _findings(error))
    except RefusedError as error:
        return Answer("deny", str(error))
    if isinstance(decision, Forward):
        return Answer("allow", f"approved: {decision.approval}" if decision.approval else rule)
    if isinstance(decision, Ask):
        return Answer("ask", f'tool "{tool}" is to be confirmed: {decision.cause}')
    if isinstance(decision, Block):
        return Answer("deny", f"{decision.message} ({decision.remedy})")
    return Answer("deny", f'tool "{tool}" had this effect already, and a hook cannot hand out its answer')


def _unwritten(root: str, tool: str, request: Request) -> Answer:
    """Without a policy there are no rules, and nothing to count: only what no policy could allow is refused."""
    place = protected_path(request.tool_input, root) if tool not in READING_VERBS else None
    return _protected(tool, place) if place else Answer("allow", "there is no policy (--allow-no-policy)")


def _protected(tool: str, place: str) -> Answer:
    return Answer("deny", f'tool "{tool}" may not touch {place}: it is protected, whatever the policy says')


def _root(request: Request) -> str:
    """The workspace: the client's project, wherever its shell has gone meanwhile; else the folder that the call names."""
    root = os.path.realpath(os.environ.get("CLAUDE_PROJECT_DIR") or request.cwd or os.getcwd())
    if not os.path.isdir(root):
        raise UsageError(f"{root} is not a folder", "start the client in a folder that is there")
    return root


def _process_of_client() -> int:
    named = os.environ.get("CLAUDE_PID", "")
    return int(named) if named.isdecimal() and named.isascii() else 0


def _findings(error: BrokenContractError) -> str:
    from adjourn.aex.diagnostics import render  # noqa: PLC0415  # only when a contract is broken

    texts = [render(finding, error.texts.get(finding.source, "")) for finding in error.findings]
    sys.stderr.write("\n".join(texts) + "\n")
    return "\n".join([str(error), *texts])
