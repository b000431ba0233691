"""The policy that `adjourn init` writes: rules for the clients' own tools, then those of each server, tool by tool.

    reads        allow; allow, and confirm, if it reads at an address that its caller chooses
    writes       allow, and confirm
    destroys     deny, if the name says so; confirm, if only the server does: many servers say it of each file that they write

No file is read or written here, and no server started.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from adjourn.aex.match import KnownTool, KnownTools, meta_tool, names_own, tool_name_ok
from adjourn.aex.permissions import from_text
from adjourn.aex.policy import Policy
from adjourn.policy.tool_effects import Effect, ToolEffect, effect_of, shared_words
from adjourn.setup.probe import Probed, ProbedTool
from adjourn.text.redact import beginning, visible_line

MAX_NAMED = 500
"""Tools of one server that get a rule each."""
MAX_SOURCE = 100
"""Characters shown of a server's command."""
Ruling = Literal["allow", "confirm", "deny", ""]
"""What the policy does with a tool: an allow, an allow with a confirm, a deny; "" for a tool that no policy can name."""

_HEAD = """\
policy workspace v1
{mode}
# Written by `adjourn init`; yours to edit. What no line allows is refused.
# See what it permits: adjourn policy explain. Narrow it to the recorded calls: adjourn policy tighten.
# There is no goal: your first request to the agent becomes the goal of the task.

# --- The clients' own tools ---

# Reading, also resources of MCP servers; planning, asking you, starting subagents (their calls are decided on one by one).
allow file.read, tools.search, user.ask, todo.read, todo.write, plan.enter, plan.exit
allow agent.spawn, agent.message, agent.list, skill.run, shell.output, shell.stop
allow answer.structured, mcp.resources.list, mcp.resources.read

# Writing files and reaching the network: a person is asked each time.
allow file.write
confirm before file.write
allow network.fetch, network.search
confirm before network.fetch, network.search
"""
_COMMANDS = """
# Commands of the shell: a person is asked each time. Commands may do anything, so do not allow them all without asking.
allow shell.exec
confirm before shell.exec
"""
_READING_COMMANDS = """
# Commands of the shell that only read. Codex reads files by them, and cannot ask about others: add those that it may run,
# as in `allow shell.exec:npm test*`. Each part of a command line must match.
allow shell.exec:ls*, shell.exec:cat *, shell.exec:head *, shell.exec:tail *, shell.exec:wc *, shell.exec:pwd
allow shell.exec:grep *, shell.exec:git status*, shell.exec:git branch, shell.exec:git branch -a
allow shell.exec where command ~ "^git (log|diff|show|blame)( +(-[a-zA-Z0-9]*|--|--oneline|{git}?{word}|{git}))*{cut}$"
allow shell.exec where command ~ "^sed -n '?[0-9]+(,[0-9]+)?p'? [A-Za-z0-9_./][A-Za-z0-9_./-]*$"
allow shell.exec where command ~ "^rg( +(-[a-zA-Z]+[0-9]*|--files|--hidden|{word}))+{cut}$"
"""
_GIT_OPTION = r"(--[a-df-np-z][a-z-]*=?)"
"""Of `git log` and its like: any but `--ext-diff`, which runs a program, and `--output`, which writes; git takes a beginning of either."""
_WORD = (
    r"([^-\s\x22'\x5c;&|<>$`(){}*?[][^\s\x22'\x5c;&|<>$`(){}]*"
    r"|'[^-'\n][^'\n]*'"
    r"|\x22([^-\x22\x5c$`\n]|\x5c[^\n])([^\x22\x5c$`\n]|\x5c[^\n])*\x22)"
)
"""A word, plain or quoted, that a shell takes as it stands, and no program as an option."""
_CUT = "( *[|] *(head|tail|wc)( +-?[a-zA-Z0-9]+)*)?"
_ASKED_COMMANDS = """
# In Claude Code, a person is asked before each command.
for client:claude-code
  allow shell.exec
  confirm before shell.exec
"""
_STEPS = """
# Steps of contracts that `adjourn run` works through. They are of no server: a server named git has rules of its own.
allow git.status, git.diff, git.apply, tests.run:npm test*, tests.run:pytest*
"""
BUDGET_CALLS = 1000
_TAIL = f"""
deny secrets.read

budget calls={BUDGET_CALLS}
"""
_OBSERVE = (
    "\n# Nothing is refused yet, everything is recorded. Delete this line to enforce the rules below.\nmode observe\n"
)
_GATEWAY = """\
policy gateway v1
{mode}
# Written by `adjourn serve init`; yours to edit. What no line allows is refused.
# See what it permits: adjourn policy explain. Narrow it to the recorded calls: adjourn policy tighten.

budget calls={calls} per day each principal
"""
_ABOUT: dict[tuple[Effect, Ruling], str] = {
    ("reads", "allow"): "Reads: allowed.",
    ("reads", "confirm"): "Reads from the network: a person is asked each time, as before network.fetch.",
    ("writes", "confirm"): "Writes: a person is asked each time.",
    ("destroys", "confirm"): "Destructive, according to the server: a person is asked each time.",
    (
        "destroys",
        "deny",
    ): "Destructive, by its name: refused. To be asked instead, make it `allow` with a `confirm before`.",
}
_NAMELESS = "No rule can name these; they are refused. If they are called as tools of no server (git.status): give the server another name."
_KINDS: tuple[Effect, ...] = ("reads", "writes", "destroys")
_LINES: dict[Ruling, tuple[str, ...]] = {
    "allow": ("allow {0}",), "confirm": ("allow {0}", "confirm before {0}"), "deny": ("deny {0}",), "": (),
}  # fmt: skip


class ListedServer(NamedTuple):
    """A server as the policy names it, how it is started (for people), and what it answered. `is_more`: only what it lists since the
    policy was written.
    """

    name: str
    source: str
    probed: Probed
    is_more: bool = False


class RuledTool(NamedTuple):
    """A tool, what it does, and what the policy does with it."""

    server: str
    tool: ProbedTool
    effect: ToolEffect
    ruling: Ruling

    @property
    def name(self) -> str:
        """The tool's name in policies."""
        return f"{self.server}.{self.tool.name}"


def ruled(server: ListedServer) -> list[RuledTool]:
    """The tools of a server with what the policy does with each; the harmless first."""
    rulings = []
    tools = server.probed.tools[:MAX_NAMED]
    shared = shared_words(tool.name for tool in tools)
    for tool in tools:
        effect = effect_of(tool.name, read_only=tool.read_only, destructive=tool.destructive, shared=shared)
        ruling = _ruling(f"{server.name}.{tool.name}", effect, reaches=tool.reaches)
        rulings.append(RuledTool(server.name, tool, effect, ruling))
    return sorted(rulings, key=lambda ruling: (_KINDS.index(ruling.effect.kind), ruling.ruling, ruling.tool.name))


def _ruling(name: str, effect: ToolEffect, *, reaches: bool) -> Ruling:
    if not tool_name_ok(name) or names_own(name):
        return ""
    if effect.kind == "reads":
        return "confirm" if reaches else "allow"
    return "deny" if effect.kind == "destroys" and effect.named else "confirm"


def compose(servers: Sequence[ListedServer], *, asks: bool = True, observe: bool = False) -> str:
    """The first policy of a workspace. `asks`: all of its clients can ask a person about a command of the shell."""
    commands = _COMMANDS
    if not asks:
        reading = _READING_COMMANDS.replace("{git}", _GIT_OPTION).replace("{word}", _WORD).replace("{cut}", _CUT)
        commands = reading + _ASKED_COMMANDS
    return "".join((_HEAD.format(mode=_OBSERVE * observe), commands, _STEPS, _TAIL, *map(section, servers)))


def compose_gateway(servers: Sequence[ListedServer], *, observe: bool = False) -> str:
    """The first policy of a gateway, which the clients' own tools do not pass."""
    head = _GATEWAY.format(mode=_OBSERVE * observe, calls=BUDGET_CALLS)
    return "".join((head, *map(section, servers)))


def section(server: ListedServer) -> str:
    """The rules of one server's tools."""
    return "\n".join(["", *_section(server), ""])


def _section(server: ListedServer) -> Iterator[str]:
    probed = server.probed
    if server.is_more:
        yield f"# --- Tools that server {server.name} lists since: to keep one refused, write `deny` ---"
    else:
        yield f"# --- Server {server.name}: {_comment(server.source)} ---"
    if probed.failure:
        yield f"# Its tools are not known: it {_comment(probed.failure)}."
        yield from (f"#   {_comment(line)}" for line in probed.errors[-3:])
        yield "# They are refused until rules name them. Start it once more with `adjourn init`, or write, for example:"
        yield f"# allow {server.name}.NAME_OF_A_TOOL"
        return
    if not probed.tools:
        yield "# It lists no tools."
    if len(probed.tools) > MAX_NAMED:
        yield f"# It lists {len(probed.tools):,} tools; rules for the first {MAX_NAMED} follow."
    last: object = None
    for tool in ruled(server):
        group = (tool.effect.kind, tool.ruling)
        if group != last:
            yield from ("", f"# {_ABOUT.get(group, _NAMELESS)}")
            last = group
        if not tool.ruling:
            yield f"#   {_comment(tool.tool.name)}"
        yield from (line.format(tool.name) for line in _LINES[tool.ruling])


def _comment(text: str) -> str:
    """A text of others in a comment: on one line, without secrets and without what is not seen."""
    return visible_line(beginning(text, MAX_SOURCE))


# --- a policy that is there already


def unnamed(text: str, names: Iterable[str]) -> list[str]:
    """The servers of which a policy names no tool. A policy that allows everything, or has an error, names all."""
    policy, findings = from_text(text, "")
    patterns = [rule.pattern for rule in (*policy.allow, *policy.deny, *policy.confirm)]
    if "*" in patterns or any(finding.severity == "error" for finding in findings):
        return []
    return [name for name in names if not any(_names(pattern, name) for pattern in patterns)]


def _names(pattern: str, server: str) -> bool:
    return pattern.split(":", maxsplit=1)[0].partition(".")[0] == server and not names_own(pattern)


def unruled(text: str, written: Sequence[str], server: str, known: KnownTools) -> tuple[KnownTool, ...]:
    """The tools that a server lists, that no rule of the policy names, and none of those `written` by adjourn earlier named.

    None of a server of which a person wrote the rules, or of a policy that allows everything or has an error.
    """
    policy, findings = from_text(text, "")
    is_broken = any(finding.severity == "error" for finding in findings)
    if is_broken or _head_of(text, server) < 0:
        return ()
    bound = policy.at_server(server, known)
    proposed = {rule for each in written for rule in _named_tools(each)}
    return tuple(
        tool
        for tool in known.servers.get(server, ())
        if not _rules_on(bound, tool.name) and f"{server}.{tool.name}" not in proposed and not meta_tool(tool.name)
    )


def _named_tools(text: str) -> set[str]:
    policy, _ = from_text(text, "")
    return {rule.pattern for rule in (*policy.allow, *policy.deny)}


def extended(text: str, servers: Iterable[ListedServer]) -> str:
    """The policy with a section for each server, in the place of what stands for one that was not known before.

    A server stays out if the policy rules on a tool of it by its short name, or if it is still not known.
    """
    policy, _ = from_text(text, "")
    for server in servers:
        if server.is_more:
            text = text.rstrip("\n") + "\n" + section(server)
            continue
        if any(_rules_on(policy, tool.name) for tool in server.probed.tools):
            continue
        place = _placeholder(text, server.name)
        if place is None:
            text = text.rstrip("\n") + "\n" + section(server)
        elif not server.probed.failure:
            text = text[: place[0]] + section(server).strip("\n") + text[place[1] :]
    return text


def _rules_on(policy: Policy, tool: str) -> bool:
    verdict = policy.judge(tool)
    return policy.looks_at_arguments(tool) or verdict.effect != "closed"


def _head_of(text: str, name: str) -> int:
    """Where the section of a server begins; -1 if there is none."""
    head = f"# --- Server {name}: "
    return 0 if text.startswith(head) else text.find(f"\n{head}") + 1 or -1


def _placeholder(text: str, name: str) -> tuple[int, int] | None:
    """Where the comment stands that keeps the place of a server: from its first line to its last."""
    start = end = _head_of(text, name)
    if start < 0:
        return None
    while text[end : end + 1] == "#":
        line_end = text.find("\n", end)
        end = len(text) if line_end < 0 else line_end + 1
    return start, end - (text[end - 1 : end] == "\n")
