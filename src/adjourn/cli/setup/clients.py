"""`adjourn init` and `adjourn init --undo`: shows what changes in clients' files, asks, changes it.

Owns: what is shown and asked. Must never: change what was not shown.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from adjourn.cli.shared.output import complain, safe, safe_lines, say, say_json, unified_diff
from adjourn.setup import SERVER_FILES, SetupNote, home, plan, undo

NO_CLIENT = "no client was found here"
_WANTED = f"none of the files that list servers is here: {', '.join(entry.path for entry in SERVER_FILES)}"
_BY_HAND = (
    "put `adjourn proxy --` before the command of a server where your client lists it, or run this there"
)
_COLOURS = {"+": "green", "-": "red", "@": "yellow"}


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


def set_up(*, yes: bool, as_json: bool) -> int:
    """Plan, show, ask, change; returns the exit code."""
    root, at = os.path.realpath(os.getcwd()), home(os.environ)
    made = plan(root, at)
    pending = made.pending
    shown = [Shown(change.path, root, change.before, change.after, change.about) for change in pending]
    clients = ", ".join(made.clients) or NO_CLIENT
    notes = made.notes if made.clients else [*made.notes, SetupNote(root, _WANTED, _BY_HAND)]
    if not pending:
        said = f"nothing to change: {clients} {'is' if len(made.clients) < 2 else 'are'} set up"
        _tell(said if made.clients else NO_CLIENT, [], notes, root, as_json=as_json, done=False)
        return 0
    head = f"{clients}: {len(pending)} file{'s' * (len(pending) != 1)} to change"
    if not _agreed(head, shown, yes=yes, as_json=as_json):
        _tell("nothing was changed", shown, notes, root, as_json=as_json, done=False)
        complain("nothing was changed: you did not confirm", "answer y when asked, or run it with --yes")
        return 1
    undo.make(pending, root)
    files = ", ".join(one.name for one in shown)
    said = f"{'set up: ' if made.clients else ''}{clients}; changed: {files}"
    _tell(said, shown, notes, root, as_json=as_json, done=True)
    if not as_json:
        say("  check the result: adjourn doctor; undo it: adjourn init --undo")
    return 0


def take_back(*, yes: bool, as_json: bool) -> int:
    """Show what would be restored, ask, restore it; returns the exit code."""
    root, at = os.path.realpath(os.getcwd()), home(os.environ)
    files, left = undo.undoable(root, at)
    shown = [Shown(one.path, root, _text(one.before), _text(one.after)) for one in files]
    notes = [
        SetupNote(
            one.path,
            "was changed since, and stays",
            f"as it was before: {one.copy}" if one.copy else "it was not there before",
        )
        for one in left
    ]
    head = f"{len(files)} file{'s' * (len(files) != 1)} to restore"
    if files and not _agreed(head, shown, yes=yes, as_json=as_json):
        _tell("nothing was restored", shown, notes, root, as_json=as_json, done=False)
        complain("nothing was restored: you did not confirm", "answer y when asked, or run it with --yes")
        return 1
    edited = [one for one in left if not one.path.endswith("/policy.aex")]  # a policy is there to be edited
    undo.take_back(files, root, keep=bool(edited))
    restored = ", ".join(one.name for one in shown) or "nothing"
    _tell(f"restored: {restored}", shown, notes, root, as_json=as_json, done=True)
    return 1 if edited else 0


def _agreed(head: str, shown: list[Shown], *, yes: bool, as_json: bool) -> bool:
    """Show the changes, and ask unless it was said beforehand."""
    if as_json:
        return yes
    say(head)
    for one in shown:
        for line in one.diff.split("\n"):
            say(safe_lines(line), _COLOURS.get(line[:1], ""))
    if yes:
        return True
    return sys.stdin.isatty() and click.confirm("Change these files?", default=False)


def _tell(
    said: str, shown: list[Shown], notes: Sequence[SetupNote], root: str, *, as_json: bool, done: bool
) -> None:
    if as_json:
        told = [{"path": note.path, "text": note.text, "remedy": note.remedy} for note in notes]
        say_json(done=done, files=[one.to_json() for one in shown], notes=told)
        return
    say(said)
    for note in notes:
        say(f"  {safe(_shown(note.path, root))}: {safe(note.text)}")
        say(f"    {safe(note.remedy)}")


def _shown(path: str, root: str) -> str:
    """The path, from the workspace or the home folder on."""
    relative = os.path.relpath(path, root)
    if not relative.startswith(".."):
        return relative
    folder = home(os.environ).folder
    return "~" + path.removeprefix(folder) if path.startswith(folder.rstrip("/") + "/") else path


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")
