"""What a command has without the command-line framework: exit codes of failures, the version, its workspace and store.

Nothing here imports click: `adjourn status` and `resume` start without it. Reading never makes a store.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from adjourn import __version__
from adjourn.errors import AdjournError, NotFoundError
from adjourn.host.executables import leave_working_folder
from adjourn.store.url import check_argument

if TYPE_CHECKING:
    from adjourn.findings import Finding
    from adjourn.store.base import Store
    from adjourn.tasks.task import Task


# --- failures as lines on stderr and exit codes

_LOOK = "check the path and its permissions"
NO_TEXTS: Mapping[str, str] = MappingProxyType({})

NOBODY_READS = 141
"""Exit code where the output was closed before all of it was written: as of a program that SIGPIPE ends. Never 0, for what was not
written may be that a check failed.
"""


def exit_code(work: Callable[[], object], *, as_json: bool = False) -> int:
    """Run a command, and return its exit code. A failure is printed with the next step: on stderr, or as JSON on stdout."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        result = work()
        sys.stdout.flush()
    except KeyboardInterrupt:
        fail("interrupted", "interrupted", as_json=as_json)
        return 130
    except AdjournError as error:
        # a reader of files has no better remedy
        remedy = error.remedy or (_LOOK if isinstance(error, NotFoundError) else "")
        findings = getattr(error, "findings", ())
        fail(_code(error), error.message, remedy, findings, getattr(error, "texts", {}), as_json=as_json)
        return error.exit_code
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return NOBODY_READS
    except OSError as error:
        fail("system", f"{error.filename or 'a file'}: {error.strerror or error}", _LOOK, as_json=as_json)
        return 1
    return result if isinstance(result, int) else 0


def _code(error: AdjournError) -> str:
    """The kind of an error for programs: `not-found` of NotFoundError. Kinds that only adjourn knows count as their base."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == AdjournError.__module__)
    if kind is AdjournError:
        return "failed"
    name = kind.__name__.removesuffix("Error")
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")


def fail(
    code: str,
    message: str,
    remedy: str = "",
    findings: Sequence[Finding] = (),
    texts: Mapping[str, str] = NO_TEXTS,
    *,
    as_json: bool,
) -> None:
    """Print why a command failed: on stderr the findings, each with the text that it is about, and the message; or all of it as JSON."""
    from adjourn.aex.diagnostics import render
    from adjourn.cli.output import complain, finding_json, safe, say_finding, say_json  # for failures alone
    from adjourn.text.redact import without_secrets

    if as_json:
        error: dict[str, object] = {"code": code, "message": without_secrets(message), "help": without_secrets(remedy)}
        if findings:
            error["findings"] = [finding_json(finding) for finding in findings]
        say_json(error=error)
        return
    for finding in findings:
        say_finding(render(finding, texts.get(finding.source, "")), err=True)
    complain(safe(message), safe(remedy))


# --- what `adjourn --version` prints


def say_version(program: str, *, as_json: bool) -> None:
    """Print the version; as JSON also what a report of a defect needs."""
    if as_json:
        import json
        import platform

        from adjourn.log.event import VERSION
        from adjourn.store.base import LATEST

        facts = {
            "program": program,
            "version": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "storeSchemas": dict(LATEST),
            "eventFormat": VERSION,
        }
        print(json.dumps(facts, indent=2))
    else:
        print(f"{program} {__version__}")


# --- commands that start without the framework


def run_plain(
    arguments: list[str],
    options: Collection[str],
    switches: Collection[str],
    work: Callable[[StoreContext, dict[str, str]], int | None],
    accepts: Callable[[dict[str, str]], bool] = bool,
) -> int | None:
    """Run `work` in the workspace that the arguments name and return the exit code; None if only the framework can read the arguments.

    Besides -C, --store, --json and one word, `options` take a text and `switches` none. `work` gets the value of each by its name, ""
    without one, and the word by ""; `accepts` says whether it can use them.
    """
    values = plain_values(arguments, options, switches)
    if values is None or not accepts(values):
        return None

    def in_workspace() -> int | None:
        if values["-C"]:
            os.chdir(values["-C"])
            leave_working_folder()
        context = StoreContext(check_argument(values["--store"]))
        try:
            return work(context, values)
        finally:
            context.close()

    return exit_code(in_workspace, as_json=bool(values["--json"]))


def plain_values(
    arguments: list[str], options: Collection[str] = (), switches: Collection[str] = ()
) -> dict[str, str] | None:
    """The value of each option, a switch that is given being its own; None for anything unusual."""
    values = dict.fromkeys(("", "-C", "--store", "--json", *options, *switches), "")
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            name, value = "", word
        elif word == "--json" or word in switches:
            values[word] = word
            continue
        elif (name == "-C" and not equals and words) or (name in ("--store", *options) and (equals or words)):
            value = value if equals else words.pop(0)
        else:
            return None
        if not value or value.startswith("-") or values[name]:
            return None
        values[name] = value
    if values["-C"] and not (os.path.isdir(values["-C"]) and os.access(values["-C"], os.X_OK)):
        return None
    return values


# --- the workspace of a command, and its store

_READING = "reading the history"
_NO_STORE = "start a session behind `adjourn proxy` to create it, or name another store with -C DIR or --store URL"


class StoreContext:
    """The workspace that a command was started in, and its store. `tree` is the work tree that has the files and pages."""

    def __init__(self, url: str = "") -> None:
        from adjourn.host.clock import now
        from adjourn.host.finding import DEFAULT_STORE, workspace_of

        self.workspace = workspace_of()
        self.root, self.tree = self.workspace.root, self.workspace.tree
        self.named = bool(url or os.environ.get("ADJOURN_STORE"))
        """Whether a person named the store."""
        self.url = url or os.environ.get("ADJOURN_STORE", "") or DEFAULT_STORE
        self.now = now()
        self.clock = now
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The store, which must be there. Raises `NotFoundError`."""
        from adjourn.host.workspace_store import shown_store

        store = self.store_or_none()
        if store is None:
            missing = f"there is no store at {shown_store(self.url)}{self._where()}"
            raise NotFoundError(missing if self.named else f"no session has run here yet: {missing}", _NO_STORE)
        return store

    def _where(self) -> str:
        """The folder of a store that is relative to the workspace, unless it is plain."""
        from adjourn.host.workspace_store import store_file

        here, file = self.workspace, store_file("", self.url)
        if not file or os.path.isabs(file) or here.root == here.start == here.last:
            return ""
        return f" in {here.root}" if here.is_found else f" {here.searched()}"

    def store_or_none(self) -> Store | None:
        """The store, if there is one."""
        from adjourn.host.workspace_store import has_store

        return self.make_store() if self._store or has_store(self.root, self.url) else None

    def make_store(self) -> Store:
        """The store, made if need be: for commands that write into it."""
        from adjourn.host.workspace_store import open_at

        if self._store is None:
            self._store = open_at(self.root, self.url)
        return self._store

    def close(self) -> None:
        """Close the store, if it was opened."""
        if self._store is not None:
            self._store.close()

    @property
    def changes(self) -> tuple[str, ...]:
        """The real paths of what a command here changes; a store that is no file is in no folder."""
        from adjourn.host.workspace_store import store_file

        return os.path.realpath(self.root), os.path.realpath(path) if (
            path := store_file(self.root, self.url)
        ) else self.url

    def task(self, name: str) -> Task:
        """A task for reading, by its id or a unique prefix."""
        from adjourn.cli.terminal import Spinner
        from adjourn.host.keys import reading_secret
        from adjourn.tasks.task import existing

        with Spinner(_READING):
            return existing(self.store, name, clock=self.clock, secret=reading_secret())

    def writable(self, task: str) -> Task:
        """A task to add facts to."""
        from adjourn.cli.terminal import Spinner
        from adjourn.host.keys import secret
        from adjourn.tasks.task import existing

        with Spinner(_READING):
            return existing(self.store, task, clock=self.clock, secret=secret())
