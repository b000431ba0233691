"""`adjourn init` and `adjourn init --undo`: starts servers to see their tools, shows what changes in clients' files, asks, changes it.

Without --yes, nothing is started or changed that was not shown.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import click

from adjourn.aex.match import NOTHING_KNOWN, KnownTools
from adjourn.cli.context import CommandContext, check_person
from adjourn.cli.output import (
    complain,
    counted,
    safe,
    safe_lines,
    say,
    say_facts,
    say_json,
    say_prose,
    say_table,
    unified_diff,
)
from adjourn.cli.task_view import holders, readable_ledgers
from adjourn.cli.terminal import Spinner, print_diff
from adjourn.clients.served_tools import keep_tools, known_tools
from adjourn.errors import AdjournError, InvalidError, RefusedError
from adjourn.host import keys
from adjourn.policy.tool_effects import Effect
from adjourn.setup import first_policy, policy_plan, remains, undo
from adjourn.setup.first_policy import ListedServer, RuledTool, ruled
from adjourn.setup.places import CLAUDE, CODEX, IGNORED, POLICY, SERVER_FILES, home, user_folder
from adjourn.setup.planning import SetupNote, SetupPlan, plan, plan_for_user
from adjourn.setup.probe import Probed, ServerStart, probe_all
from adjourn.setup.servers import ServerEntry, shown_start
from adjourn.tasks.heads import KeptHeads
from adjourn.tasks.task import tasks_of

NO_CLIENT = "no client was found here"
_WANTED = f"none of the files that list servers is here: {', '.join(entry.path for entry in SERVER_FILES)}"
_BY_HAND = "put `adjourn proxy --` before the command of a server where your client lists it, or run this there"


class Asked(NamedTuple):
    """The options of `adjourn init` about what is asked and shown. `no_start`: no server is started, whatever `yes` says."""

    yes: bool
    no_start: bool
    diff: bool
    as_json: bool


class Shown:
    """A file as it is and as it would be, for people and for machines."""

    def __init__(self, path: str, root: str, before: str | None, after: str | None, about: Sequence[str] = ()) -> None:
        self.path = path
        self.name = _shown(path, root)
        self.diff = unified_diff(
            (before or "").splitlines(keepends=True),
            (after or "").splitlines(keepends=True),
            self.name if before is not None else "/dev/null",
            self.name if after is not None else "/dev/null",
        )
        self.about = list(about)

    def to_json(self) -> dict[str, Any]:
        """The change for `--json`."""
        return {"path": self.path, "changes": self.about, "diff": self.diff}


def set_up(how: Asked, *, observe: bool, start: str) -> int:
    """Plan, ask the servers for their tools, show, ask, change; returns the exit code. `start` is the folder that a person works in."""
    root, at = os.path.realpath(os.getcwd()), home(os.environ)
    setup = plan(root, at, start)
    if setup.broken:
        for note in setup.broken:
            complain(f"nothing was changed: {_shown(note.path, root)}: {note.text}", note.remedy)
        return 1
    to_probe = policy_plan.to_probe(setup)
    answers = _probed(to_probe, root, how)
    listed = policy_plan.with_tools(
        setup,
        list(zip(to_probe, answers, strict=True)),
        observe=observe,
        known=_known_tools(root),
        written=undo.written_policies(root),
    )
    pending = setup.pending
    changes = [Shown(change.path, root, change.before, change.after, change.about) for change in pending]
    clients = ", ".join(setup.clients) or NO_CLIENT
    notes = setup.notes if setup.clients else [*setup.notes, SetupNote(root, _WANTED, _BY_HAND)]
    if not pending:
        message = f"nothing to change: {clients} {'is' if len(setup.clients) < 2 else 'are'} set up"
        tell(message if setup.clients else NO_CLIENT, [], notes, root, as_json=how.as_json, done=False)
        propose_pin(root, how)
        return 0
    extends = any(change.before and change.path.endswith(".aex") for change in pending)
    if not how.as_json and (how.diff or not how.yes or extends):
        show_tools(listed)
    head = f"{clients}: {counted(len(pending), 'file')} to change"
    if not agreed_to_change(head, changes, how):
        tell("nothing was changed", changes, notes, root, as_json=how.as_json, done=False, servers=listed)
        complain("you did not confirm", "answer y when asked, or run it with --yes")
        return 1
    if extends:
        check_person("init", None, attended=False)  # more is permitted from now on
    undo.make(pending, root)
    _keep_tools(to_probe, answers, root)
    message = f"set up: {clients}" if setup.clients else NO_CLIENT
    if not how.as_json:
        say(message)
        show(setup, listed, [each.name for each in changes], observe=observe)
        _tell_notes(notes, root)
        propose_pin(root, how)
        return 0
    tell(message, changes, notes, root, as_json=True, done=True, servers=listed)
    return 0


def propose_pin(root: str, how: Asked) -> None:
    """Propose a PIN where the policy lets a shell run unasked; with --yes only say so."""
    if not how.as_json:
        from adjourn.cli.keys import propose_pin as propose  # not for the help

        propose(root, may_ask=not how.yes)


def set_up_user(how: Asked) -> int:
    """Show the changes of the user's own settings, ask, change them; returns the exit code. Starts no server."""
    setup, root = plan_for_user(home(os.environ)), user_folder()
    if setup.broken:
        for note in setup.broken:
            complain(f"nothing was changed: {_shown(note.path, root)}: {note.text}", note.remedy)
        return 1
    pending, clients = setup.pending, ", ".join(setup.clients) or NO_CLIENT
    changes = [Shown(change.path, root, change.before, change.after, change.about) for change in pending]
    if not pending:
        message = f"nothing to change: {clients} {'is' if len(setup.clients) < 2 else 'are'} set up for every project"
        tell(message if setup.clients else NO_CLIENT, [], setup.notes, root, as_json=how.as_json, done=False)
        return 0
    if not agreed_to_change(f"{clients}: {counted(len(pending), 'file')} to change", changes, how):
        tell("nothing was changed", changes, setup.notes, root, as_json=how.as_json, done=False)
        complain("you did not confirm", "answer y when asked, or run it with --yes")
        return 1
    check_person("init", None, attended=False)  # every project is governed otherwise from now on
    os.makedirs(root, mode=0o700, exist_ok=True)
    undo.make(pending, root)
    tell(f"set up for every project: {clients}", changes, setup.notes, root, as_json=how.as_json, done=True)
    if not how.as_json:
        show_user([each.name for each in changes])
    return 0


def policy_for(how: Asked, *, observe: bool) -> str:
    """The policy that `set_up` would write where there is none. Raises `InvalidError` for settings that cannot be parsed."""
    root = os.path.realpath(os.getcwd())
    setup = plan(root, home(os.environ))
    for note in setup.broken:
        raise InvalidError(f"nothing was written: {_shown(note.path, root)}: {note.text}", note.remedy)
    to_probe = policy_plan.to_probe(setup)
    answers = _probed(to_probe, root, how)
    policy_plan.with_tools(setup, list(zip(to_probe, answers, strict=True)), observe=observe)
    return setup.changes[os.path.join(root, POLICY)].after


def _probed(entries: Sequence[ServerEntry], root: str, how: Asked) -> list[Probed]:
    """What the servers answered. They are started with an approval only: a repository may name any command."""
    ready = [policy_plan.start(entry, root, os.environ) for entry in entries]
    starts = [start for start in ready if isinstance(start, ServerStart)]
    if not starts:
        return [start for start in ready if isinstance(start, Probed)]
    yes = how.yes and not how.no_start
    if not (how.yes or how.no_start or how.as_json) and sys.stdin.isatty():
        to_start = [
            AskedStart(entry, start)
            for entry, start in zip(entries, ready, strict=True)
            if isinstance(start, ServerStart)
        ]
        yes = agreed(to_start, root, "to see which tools they list")
    if not yes:
        return [start if isinstance(start, Probed) else policy_plan.NOT_STARTED for start in ready]
    check_person("init", None, attended=False)  # what is started is what settings of the workspace say
    with Spinner(f"starting {counted(len(starts), 'server')} to list their tools"):
        answers = iter(probe_all(starts))
    return [start if isinstance(start, Probed) else next(answers) for start in ready]


def _known_tools(root: str) -> KnownTools:
    """What the servers of this workspace listed behind the proxy."""
    context = CommandContext()
    with suppress(AdjournError):
        if context.root == root and (store := context.store_or_none()) is not None:
            return known_tools(store)
    return NOTHING_KNOWN


def _keep_tools(entries: Sequence[ServerEntry], answers: Sequence[Probed], root: str) -> None:
    """Have the store know what the servers listed, so that rules can be checked before the first session."""
    context = CommandContext()
    listing = [(entry, answer) for entry, answer in zip(entries, answers, strict=True) if not answer.failure]
    with suppress(AdjournError):
        if listing and context.root == root:
            store = context.make_store()
            for entry, answer in listing:
                keep_tools(store, entry.name, answer.known_tools, command=entry.command_digest)


def take_back(how: Asked, *, user: bool = False) -> int:
    """Show what would be restored, ask, restore it; returns the exit code."""
    root, at = user_folder() if user else os.path.realpath(os.getcwd()), home(os.environ)
    files, left = undo.undoable(root, at)
    unused = [] if user else _without_tasks(root)
    history = [] if user else [path for path in remains.remains(root) if path not in unused]
    if history:  # git must not add it
        files = [file for file in files if not (file.path.endswith(IGNORED) and file.after is None)]
    changes = [Shown(file.path, root, _text(file.before), _text(file.after)) for file in files]
    notes = [_left(file) for file in left]
    head = f"{len(files)} file{'s' * (len(files) != 1)} to restore"
    if files and not agreed_to_change(head, changes, how):
        tell("nothing was restored", changes, notes, root, as_json=how.as_json, done=False)
        complain("you did not confirm", "answer y when asked, or run it with --yes")
        return 1
    edited = [file for file in left if not file.path.endswith((POLICY, IGNORED))]  # these are there to be edited
    undo.take_back(files, root, keep=bool(edited))
    remains.delete(unused, root)
    restored = ", ".join(file.name for file in changes) or "nothing"
    tell(f"restored: {restored}", changes, notes, root, as_json=how.as_json, done=True)
    if not how.as_json:
        _offer_to_delete(history, root, how)
    return 1 if edited else 0


def _without_tasks(root: str) -> list[str]:
    """The files of a store in which no session has worked: nobody misses them."""
    context = CommandContext()
    has_tasks = True
    with suppress(AdjournError):
        if context.root == root and not context.named and (store := context.store_or_none()) is not None:
            has_tasks = bool(tasks_of(store))
    context.close()
    return [] if has_tasks else [path for path in remains.remains(root) if ".db" in path]


def _offer_to_delete(history: list[str], root: str, how: Asked) -> None:
    """Say what stays, and delete it if the person agrees."""
    config = os.path.dirname(keys.folder())
    say_facts(
        ("  kept", ", ".join(history)),
        ("  kept", f"{_shown(config, root)}: your keys, for every workspace" if os.path.isdir(config) else ""),
    )
    if not history:
        return
    if how.yes or not sys.stdin.isatty():
        say(f"  delete the history: {remains.delete_command(history, root)}")
        return
    if click.confirm("Delete the history of this workspace, too? No task can be resumed then.", default=False):
        _delete(history, root)
        say("deleted: the history of this workspace")


def _delete(history: list[str], root: str) -> None:
    context = CommandContext()
    store = None if context.named else context.store_or_none()
    if store is not None:
        for task, ledger in readable_ledgers(context):
            if any(holder.alive for holder in holders(context, ledger)):
                raise RefusedError(
                    f"a session is working on task {task}",
                    f"end its client, then: {remains.delete_command(history, root)}",
                )
        KeptHeads(store, keys.reading_secret()).forget_store()
        context.close()
    remains.delete(history, root)


def _left(remainder: undo.NotRestored) -> SetupNote:
    """What stays of a change, since it was edited."""
    remedy = f"as it was before: {remainder.copy}" if remainder.copy else "it did not exist before"
    if not remainder.pieces:
        return SetupNote(remainder.path, "was edited since, and was not restored", remedy)
    return SetupNote(remainder.path, f"edited since, and not restored: {'; '.join(remainder.pieces)}", remedy)


def agreed_to_change(head: str, changes: list[Shown], how: Asked) -> bool:
    """Show the changes, and ask unless it was said beforehand."""
    if how.as_json:
        return how.yes
    if how.diff or not how.yes:
        say(head)
        for change in changes if how.diff else ():
            print_diff(safe_lines(change.diff))
        if not how.diff:
            say_facts(*((f"  {safe(change.name)}", _about(change.about) or "as it was before") for change in changes))
    if how.yes or not sys.stdin.isatty():
        return how.yes
    answer = click.prompt("Change these files? y, n, or d for the differences", default="n")
    if answer.strip().lower() in ("d", "diff"):
        for change in changes:
            print_diff(safe_lines(change.diff))
        return click.confirm("Change these files?", default=False)
    return answer.strip().lower() in ("y", "yes")


def _about(about: Sequence[str]) -> str:
    """What changes in a file; its hooks are counted."""
    hooks = [text for text in about if text.startswith("hook for ")]
    others = [text for text in about if text not in hooks]
    return ", ".join([*others, *([counted(len(hooks), "hook")] if hooks else [])])


def tell(
    message: str,
    changes: list[Shown],
    notes: Sequence[SetupNote],
    root: str,
    *,
    as_json: bool,
    done: bool,
    servers: Sequence[ListedServer] | None = None,
) -> None:
    if not as_json:
        say(message)
        _tell_notes(notes, root)
        return
    notes_json = [{"path": note.path, "text": note.text, "remedy": note.remedy} for note in notes]
    members = {"done": done, "files": [change.to_json() for change in changes], "notes": notes_json}
    say_json(members if servers is None else members | {"servers": to_json(servers)})


def _tell_notes(notes: Sequence[SetupNote], root: str) -> None:
    for note in notes:
        say_prose(f"  {safe(_shown(note.path, root))}: {safe(note.text)}\n    {safe(note.remedy)}")


def _shown(path: str, root: str) -> str:
    """The path, from the workspace or the home folder on."""
    relative = os.path.relpath(path, root)
    if not relative.startswith(".."):
        return relative
    folder = home(os.environ).folder
    return "~" + path.removeprefix(folder) if path.startswith(folder.rstrip("/") + "/") else path


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


# --- what `adjourn init` says about servers and their tools

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
                (row.server, row.tool.name, row.effect.kind, row.ruling or "refused", row.effect.why)
                for row in tools[:MAX_ROWS]
            ],
        )
        say(f"… {len(tools) - MAX_ROWS:,} more\n" if len(tools) > MAX_ROWS else "")


def show(setup: SetupPlan, servers: Sequence[ListedServer], changed: Sequence[str], *, observe: bool) -> None:
    """What was found, what was written, what the agents may do now, what to do next."""
    tools = [tool for server in servers for tool in ruled(server)]
    has_policy = any(change.path.endswith(".aex") for change in setup.pending)
    is_first = any(change.path.endswith(".aex") and change.before is None for change in setup.pending)
    is_trial = observe and is_first
    rows = [("found", "; ".join(map(found, servers))), ("changed", ", ".join(changed))]
    if has_policy:
        has_codex = CODEX in setup.clients
        shell = ["shell.exec in Claude Code" if has_codex else "shell.exec"] if CLAUDE in setup.clients else []
        shell = shell or ["shell.exec"] * (not has_codex)
        reading = (["file.read"] + ["shell.exec to read"] * has_codex) * is_first + named(tools, "allow")
        asking = ["file.write", "network.*", *shell] * is_first + named(tools, "confirm")
        unasking = [client for client in (CLAUDE, CODEX) if setup.behind.get(client)]
        verb = "do" if unasking[1:] else "does"
        unasked = f"; {' and '.join(unasking)} {verb} not ask, either" if unasking else ""
        rows += verdict_rows(reading, asking, named(tools, "deny"), is_trial=is_trial, unasked=unasked)
    if is_first:
        rows.append(("budget", f"{first_policy.BUDGET_CALLS:,} calls a task: `budget calls=` in the policy"))
    if is_trial:
        rows.append(("mode", "observe: nothing is refused yet; when it has run for a while: adjourn policy tighten"))
    rows += [
        ("next", "read .aex/policy.aex, then start your client here"),
        ("check", "adjourn doctor; undo: adjourn init --undo"),
    ]
    say_facts(*((f"  {name}", value) for name, value in rows))


def verdict_rows(
    reading: Sequence[str], asking: Sequence[str], denied: Sequence[str], *, is_trial: bool = False, unasked: str = ""
) -> list[tuple[str, str]]:
    """Which tools a policy allows, asks about and refuses."""
    return [
        ("allowed", _some(reading) + unasked),
        ("would ask" if is_trial else "asks first", _some(asking)),
        ("would refuse" if is_trial else "refused", ", ".join([*_some_of(denied), "all that no rule allows"])),
    ]


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


def found(server: ListedServer) -> str:
    """What was seen of a server, as a phrase."""
    name = f"{server.name} ({server.source})"
    if failure := server.probed.failure:
        error = f" ({server.probed.errors[-1]})" if server.probed.errors else ""
        return f"{name}: no tools, it {failure}{error}"
    does = Counter(tool.effect.kind for tool in ruled(server))
    parts = [f"{does[kind]} {verb}" for kind, verb in _VERBS if does[kind]]
    kind = "new tool" if server.is_more else "tool"
    return f"{name}: {counted(len(server.probed.tools), kind)}" + (f" ({', '.join(parts)})" if parts else "")


_VERBS: tuple[tuple[Effect, str], ...] = (("reads", "read"), ("writes", "write"), ("destroys", "destroy"))


def named(tools: Sequence[RuledTool], ruling: str) -> list[str]:
    return [tool.name for tool in tools if tool.ruling == ruling]


def _some(names: Sequence[str]) -> str:
    return ", ".join(_some_of(names))


def _some_of(names: Sequence[str]) -> list[str]:
    return [*names[:MAX_NAMED], *([f"{len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else [])]


# --- asking before servers are started


class AskedStart(NamedTuple):
    """A server that is started if the person agrees. `behind` is the command of the proxy in front of it; "" for none."""

    entry: ServerEntry
    start: ServerStart
    behind: str = ""


def agreed(starts: Sequence[AskedStart], root: str, purpose: str) -> bool:
    """Whether the person at the terminal agrees that these are started. `purpose` starts a sentence: "to see …"."""
    say_prose(
        f"{purpose}, adjourn starts these servers once, and calls nothing. Files of this folder name them: each runs with your rights,"
        " and may run further files of the folder that it starts in"
    )
    for entry, start, behind in starts:
        say(f"  {safe(entry.name)} ({safe(entry.path.removeprefix(os.path.join(root, '')))})")
        rows = [*shown_start(entry, start, root), *([("behind", behind)] if behind else [])]
        say_facts(*((f"    {name}", safe(value)) for name, value in rows))
    return click.confirm("Start them?", default=False)
