"""What `adjourn init` says about servers and their tools: a table before it asks, ten lines after it is done.

Owns: these texts. Must never: ask, or change a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from adjourn.cli.shared.output import counted, safe, say, say_facts, say_table
from adjourn.policy import Effect
from adjourn.setup import CODEX, ListedServer, RuledTool, SetupPlan, ruled

MAX_ROWS = 200
"""Tools in the table."""
MAX_NAMED = 6
"""Tools that the summary names one by one."""


def show_tools(servers: Sequence[ListedServer]) -> None:
    """The table of the servers' tools: what each does, why that is thought, what the policy does with it."""
    tools = [tool for server in servers for tool in ruled(server)]
    if tools:
        say_table(
            ("SERVER", "TOOL", "DOES", "POLICY", "WHY"),
            [
                (one.server, one.tool.name, one.effect.kind, one.ruling or "refused", one.effect.why)
                for one in tools[:MAX_ROWS]
            ],
        )
        say(f"… {len(tools) - MAX_ROWS:,} more\n" if len(tools) > MAX_ROWS else "")


def show(made: SetupPlan, servers: Sequence[ListedServer], changed: Sequence[str], *, observe: bool) -> None:
    """What was found, what was written, what the agents may do now, what to do next."""
    tools = [tool for server in servers for tool in ruled(server)]
    has_policy = any(change.path.endswith(".aex") for change in made.pending)
    is_first = any(change.path.endswith(".aex") and change.before is None for change in made.pending)
    rows = [("found", "; ".join(map(_found, servers))), ("changed", ", ".join(changed))]
    if has_policy:
        shell = ["shell.exec"] if CODEX not in made.clients else []
        reading = (["file.read"] + ["shell.exec to read"] * (not shell)) * is_first + _named(tools, "allow")
        asking = ["file.write", "network.*", *shell] * is_first + _named(tools, "confirm")
        rows += [
            ("allowed", _some(reading)),
            ("asks first", _some(asking)),
            ("refused", ", ".join([*_some_of(_named(tools, "deny")), "all that no rule allows"])),
        ]
    if observe and is_first:
        rows.append(("mode", "observe: nothing is refused yet; when it has run for a while: adjourn tighten"))
    rows += [
        ("next", "read .aex/policy.aex, then start your client here"),
        ("check", "adjourn doctor; undo: adjourn init --undo"),
    ]
    say_facts(*((f"  {name}", value) for name, value in rows))


def show_user(changed: Sequence[str]) -> None:
    """What a set-up of the user's own settings changed, where it counts, what to do next."""
    say_facts(
        ("  changed", ", ".join(changed)),
        ("  governed", "every folder of a workspace, and each work tree of its repository"),
        ("  elsewhere", "servers and hooks do what they did before"),
        ("  next", "write a policy in a project: adjourn init --policy"),
        ("  undo", "adjourn init --user --undo"),
    )


def to_json(servers: Iterable[ListedServer]) -> list[dict[str, Any]]:
    """The servers with their tools, for `--json`."""
    return [
        {
            "server": server.name,
            "command": safe(server.source),
            "failure": safe(server.probed.failure),
            "errors": list(server.probed.errors),
            "tools": [_tool_json(tool) for tool in ruled(server)],
        }
        for server in servers
    ]


def _tool_json(tool: RuledTool) -> dict[str, str]:
    return {
        "tool": safe(tool.tool.name),
        "does": tool.effect.kind,
        "policy": tool.ruling or "refused",
        "why": tool.effect.why,
    }


def _found(server: ListedServer) -> str:
    if failure := server.probed.failure:
        said = f" ({server.probed.errors[-1]})" if server.probed.errors else ""
        return f"{server.name}: no tools, it {failure}{said}"
    does = Counter(tool.effect.kind for tool in ruled(server))
    parts = [f"{does[kind]} {verb}" for kind, verb in _VERBS if does[kind]]
    return f"{server.name}: {counted(len(server.probed.tools), 'tool')}" + (
        f" ({', '.join(parts)})" if parts else ""
    )


_VERBS: tuple[tuple[Effect, str], ...] = (("reads", "read"), ("writes", "write"), ("destroys", "destroy"))


def _named(tools: Sequence[RuledTool], ruling: str) -> list[str]:
    return [tool.name for tool in tools if tool.ruling == ruling]


def _some(names: Sequence[str]) -> str:
    return ", ".join(_some_of(names))


def _some_of(names: Sequence[str]) -> list[str]:
    return [*names[:MAX_NAMED], *([f"{len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else [])]
