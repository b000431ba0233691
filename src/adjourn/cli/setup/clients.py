"""`adjourn init` and `adjourn init --undo`: starts servers to see their tools, shows what changes in clients' files, asks, changes it.

Owns: what is shown and asked. Must never: change what was not shown.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import click

from adjourn.cli.setup import init_summary
from adjourn.cli.setup.starts import AskedStart, agreed
from adjourn.cli.shared.context import CommandContext, check_person
from adjourn.cli.shared.output import (
    complain,
    counted,
    safe,
    safe_lines,
    say,
    say_facts,
    say_json,
    say_prose,
    unified_diff,
)
from adjourn.cli.shared.terminal import Spinner, print_diff
from adjourn.clients import keep_tools
from adjourn.errors import AdjournError, InvalidError
from adjourn.setup import (
    IGNORED,
    POLICY,
    SERVER_FILES,
    ListedServer,
    Probed,
    ServerEntry,
    ServerStart,
    SetupNote,
    home,
    plan,
    plan_for_user,
    policy_plan,
    probe_all,
    undo,
    user_folder,
)

NO_CLIENT = "no client was found here"
_WANTED = f"none of the files that list servers is here: {', '.join(entry.path for entry in SERVER_FILES)}"
_BY_HAND = (
    "put `adjourn proxy --` before the command of a server where your client lists it, or run this there"
)


class Asked(NamedTuple):
    """The options of `adjourn init` about what is asked and shown. `no_start`: no server is started, whatever `yes` says."""

    yes: bool
    no_start: bool
    diff: bool
    as_json: bool


class Shown:
    """A file as it is and as it would be, for people and for machines."""

    def __init__(
        self, path: str, root: str, before: str | None, after: str | None, about: Sequence[str] = ()
    ) -> None:
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


def set_up(how: Asked, *, observe: bool) -> int:
    """Plan, ask the servers for their tools, show, ask, change; returns the exit code."""
    root, at = os.path.realpath(os.getcwd()), home(os.environ)
    made = plan(root, at)
    if made.broken:
        for note in made.broken:
            complain(f"nothing was changed: {_shown(note.path, root)}: {note.text}", note.remedy)
        return 1
    asked = policy_plan.to_probe(made)
    answers = _probed(asked, root, how)
    listed = policy_plan.with_tools(made, list(zip(asked, answers, strict=True)), observe=observe)
    pending = made.pending
    shown = [Shown(change.path, root, change.before, change.after, change.about) for change in pending]
    clients = ", ".join(made.clients) or NO_CLIENT
    notes = made.notes if made.clients else [*made.notes, SetupNote(root, _WANTED, _BY_HAND)]
    if not pending:
        said = f"nothing to change: {clients} {'is' if len(made.clients) < 2 else 'are'} set up"
        _tell(said if made.clients else NO_CLIENT, [], notes, root, as_json=how.as_json, done=False)
        propose_pin(root, how)
        return 0
    extends = any(change.before and change.path.endswith(".aex") for change in pending)
    if not how.as_json and (how.diff or not how.yes or extends):
        init_summary.show_tools(listed)
    head = f"{clients}: {counted(len(pending), 'file')} to change"
    if not _agreed(head, shown, how):
        _tell("nothing was changed", shown, notes, root, as_json=how.as_json, done=False, servers=listed)
        complain("you did not confirm", "answer y when asked, or run it with --yes")
        return 1
    if extends:
        check_person("init", None, attended=False)  # more is permitted from now on
    undo.make(pending, root)
    _keep_tools(asked, answers, root)
    said = f"set up: {clients}" if made.clients else NO_CLIENT
    if not how.as_json:
        say(said)
        init_summary.show(made, listed, [one.name for one in shown], observe=observe)
        _tell_notes(notes, root)
        propose_pin(root, how)
        return 0
    _tell(said, shown, notes, root, as_json=True, done=True, servers=listed)
    return 0


def propose_pin(root: str, how: Asked) -> None:
    """Propose a PIN where the policy lets a shell run unasked; with --yes only say so."""
    if not how.as_json:
        from adjourn.cli.shared.pin_setting import propose_pin as propose  # noqa: PLC0415  # not for the help

        propose(root, may_ask=not how.yes)


def set_up_user(how: Asked) -> int:
    """Show the changes of the user's own settings, ask, change them; returns the exit code. Starts no server."""
    made, root = plan_for_user(home(os.environ)), user_folder()
    if made.broken:
        for note in made.broken:
            complain(f"nothing was changed: {_shown(note.path, root)}: {note.text}", note.remedy)
        return 1
    pending, clients = made.pending, ", ".join(made.clients) or NO_CLIENT
    shown = [Shown(change.path, root, change.before, change.after, change.about) for change in pending]
    if not pending:
        said = f"nothing to change: {clients} {'is' if len(made.clients) < 2 else 'are'} set up for every project"
        _tell(said if made.clients else NO_CLIENT, [], made.notes, root, as_json=how.as_json, done=False)
        return 0
    if not _agreed(f"{clients}: {counted(len(pending), 'file')} to change", shown, how):
        _tell("nothing was changed", shown, made.notes, root, as_json=how.as_json, done=False)
        complain("you did not confirm", "answer y when asked, or run it with --yes")
        return 1
    check_person("init", None, attended=False)  # every project is governed otherwise from now on
    os.makedirs(root, mode=0o700, exist_ok=True)
    undo.make(pending, root)
    _tell(f"set up for every project: {clients}", shown, made.notes, root, as_json=how.as_json, done=True)
    if not how.as_json:
        init_summary.show_user([one.name for one in shown])
    return 0


def policy_for(how: Asked, *, observe: bool) -> str:
    """The policy that `set_up` would write where there is none. Raises `InvalidError` for settings that cannot be parsed."""
    root = os.path.realpath(os.getcwd())
    made = plan(root, home(os.environ))
    for note in made.broken:
        raise InvalidError(f"nothing was written: {_shown(note.path, root)}: {note.text}", note.remedy)
    asked = policy_plan.to_probe(made)
    answers = _probed(asked, root, how)
    policy_plan.with_tools(made, list(zip(asked, answers, strict=True)), observe=observe)
    return made.changes[os.path.join(root, POLICY)].after


def _probed(entries: Sequence[ServerEntry], root: str, how: Asked) -> list[Probed]:
    """What the servers answered. They are started with an approval only: a repository may name any command."""
    found = [policy_plan.start(entry, root, os.environ) for entry in entries]
    starts = [start for start in found if isinstance(start, ServerStart)]
    if not starts:
        return [start for start in found if isinstance(start, Probed)]
    yes = how.yes and not how.no_start
    if not (how.yes or how.no_start or how.as_json) and sys.stdin.isatty():
        asked = [
            AskedStart(entry, start)
            for entry, start in zip(entries, found, strict=True)
            if isinstance(start, ServerStart)
        ]
        yes = agreed(asked, root, "to see which tools they list")
    if not yes:
        return [start if isinstance(start, Probed) else policy_plan.NOT_STARTED for start in found]
    check_person("init", None, attended=False)  # what is started is what settings of the workspace say
    with Spinner(f"starting {counted(len(starts), 'server')} to list their tools"):
        answers = iter(probe_all(starts))
    return [start if isinstance(start, Probed) else next(answers) for start in found]


def _keep_tools(entries: Sequence[ServerEntry], answers: Sequence[Probed], root: str) -> None:
    """Have the store know what the servers listed, so that rules can be checked. Where no session has run yet, there is no store."""
    context = CommandContext()
    with suppress(AdjournError):
        if context.root == root and (store := context.store_or_none()) is not None:
            for entry, answer in zip(entries, answers, strict=True):
                if not answer.failure:
                    keep_tools(store, entry.name, answer.known_tools, command=entry.command_digest)


def take_back(how: Asked, *, user: bool = False) -> int:
    """Show what would be restored, ask, restore it; returns the exit code."""
    root, at = user_folder() if user else os.path.realpath(os.getcwd()), home(os.environ)
    files, left = undo.undoable(root, at)
    shown = [Shown(one.path, root, _text(one.before), _text(one.after)) for one in files]
    notes = [_left(one) for one in left]
    head = f"{len(files)} file{'s' * (len(files) != 1)} to restore"
    if files and not _agreed(head, shown, how):
        _tell("nothing was restored", shown, notes, root, as_json=how.as_json, done=False)
        complain("you did not confirm", "answer y when asked, or run it with --yes")
        return 1
    edited = [one for one in left if not one.path.endswith((POLICY, IGNORED))]  # these are there to be edited
    undo.take_back(files, root, keep=bool(edited))
    restored = ", ".join(one.name for one in shown) or "nothing"
    _tell(f"restored: {restored}", shown, notes, root, as_json=how.as_json, done=True)
    return 1 if edited else 0


def _left(one: undo.NotRestored) -> SetupNote:
    """What stays of a change, since it was edited."""
    remedy = f"as it was before: {one.copy}" if one.copy else "it did not exist before"
    if not one.pieces:
        return SetupNote(one.path, "was edited since, and was not restored", remedy)
    return SetupNote(one.path, f"edited since, and not restored: {'; '.join(one.pieces)}", remedy)


def _agreed(head: str, shown: list[Shown], how: Asked) -> bool:
    """Show the changes, and ask unless it was said beforehand."""
    if how.as_json:
        return how.yes
    if how.diff or not how.yes:
        say(head)
        for one in shown if how.diff else ():
            print_diff(safe_lines(one.diff))
        if not how.diff:
            say_facts(*((f"  {safe(one.name)}", _about(one.about) or "as it was before") for one in shown))
    if how.yes or not sys.stdin.isatty():
        return how.yes
    answer = click.prompt("Change these files? y, n, or d for the differences", default="n")
    if answer.strip().lower() in ("d", "diff"):
        for one in shown:
            print_diff(safe_lines(one.diff))
        return click.confirm("Change these files?", default=False)
    return answer.strip().lower() in ("y", "yes")


def _about(about: Sequence[str]) -> str:
    """What changes in a file; its hooks are counted."""
    hooks = [text for text in about if text.startswith("hook for ")]
    others = [text for text in about if text not in hooks]
    return ", ".join([*others, *([counted(len(hooks), "hook")] if hooks else [])])


def _tell(
    said: str,
    shown: list[Shown],
    notes: Sequence[SetupNote],
    root: str,
    *,
    as_json: bool,
    done: bool,
    servers: Sequence[ListedServer] | None = None,
) -> None:
    if not as_json:
        say(said)
        _tell_notes(notes, root)
        return
    told = [{"path": note.path, "text": note.text, "remedy": note.remedy} for note in notes]
    members = {"done": done, "files": [one.to_json() for one in shown], "notes": told}
    say_json(members if servers is None else members | {"servers": init_summary.to_json(servers)})


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
