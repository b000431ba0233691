"""Where a command works: the workspace, its store, and options that every such command has.

Owns: opening a store that is there (reading must never make one), tasks by a beginning of their id, who is at the
terminal. Must never: make a store unless the command writes one.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from adjourn import host, log, tasks
from adjourn.cli.shared.output import Spinner
from adjourn.errors import NotFoundError
from adjourn.host.clock import now
from adjourn.host.python import leave_working_folder
from adjourn.store.passwords import check_argument

if TYPE_CHECKING:
    from adjourn.store.base import Store
    from adjourn.tasks.task import Task

_F = TypeVar("_F", bound=Callable[..., Any])
_READING = "reading the history"
_NO_STORE = "start a session behind `adjourn proxy` to create it, or name another with -C DIR or --store URL"


class CommandContext:
    """The workspace that a command was started in, and its store."""

    def __init__(self, url: str = "") -> None:
        self.root = os.getcwd()
        self.url = url or os.environ.get("ADJOURN_STORE", "") or host.DEFAULT_STORE
        self.now = now()
        self.clock = now
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The store, which must be there. Raises `NotFoundError`."""
        found = self.store_or_none()
        if found is None:
            raise NotFoundError(f"there is no store at {host.shown_store(self.url)}", _NO_STORE)
        return found

    def store_or_none(self) -> Store | None:
        """The store, if there is one."""
        return self.make_store() if self._store or host.has_store(self.root, self.url) else None

    def make_store(self) -> Store:
        """The store, made if need be: for commands that write into it."""
        if self._store is None:
            self._store = host.open_at(self.root, self.url)
            if context := click.get_current_context(silent=True):
                context.call_on_close(self._store.close)
        return self._store

    @property
    def changes(self) -> tuple[str, ...]:
        """The real paths of what a command here changes; a store that is no file is in no folder."""
        return os.path.realpath(self.root), os.path.realpath(path) if (
            path := host.store_file(self.root, self.url)
        ) else self.url

    def task(self, name: str) -> Task:
        """A task for reading, by its id or a beginning that only it has."""
        with Spinner(_READING):
            return tasks.existing(self.store, name, clock=self.clock, secret=host.reading_secret())

    def writable(self, task: str) -> Task:
        """A task to add facts to."""
        with Spinner(_READING):
            return tasks.existing(self.store, task, clock=self.clock, secret=host.secret())


def user() -> log.Actor:
    """Who is at the terminal, by their user id: what the environment says anybody can set."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user id without an account
        name = str(os.getuid())
    return log.Actor(name, "human")


def check_person(command: str, context: CommandContext | None, *, attended: bool) -> None:
    """Raise `RefusedError` unless whoever runs the command may speak for a person."""
    from adjourn.clients import person  # noqa: PLC0415  # only for such commands

    changes = context.changes if context else (person.home(),)
    there = context.store_or_none() if context else None
    person.check(f"adjourn {command}", changes, there, attended=attended)


def example(*lines: str) -> str:
    """The end of a command's help."""
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])


def in_folder(function: _F) -> _F:
    """Adds -C."""
    option = click.option(
        "-C",
        metavar="DIR",
        expose_value=False,
        is_eager=True,
        callback=_go,
        help="Work in DIR instead of the current folder.",
    )
    return option(function)


def at_store(function: _F) -> _F:
    """Adds -C and --store; the command gets `context`."""
    option = click.option(
        "--store",
        "context",
        metavar="URL",
        default="",
        callback=lambda _ctx, _param, value: CommandContext(check_argument(value)),
        help="Store of the history (default: $ADJOURN_STORE, else .aex/adjourn.db).",
    )
    return in_folder(option(function))


def for_machines(function: _F) -> _F:
    """Adds --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(function)


def _go(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value:
        try:
            os.chdir(value)
            leave_working_folder()
        except OSError as error:
            raise click.BadParameter(f"{value}: {error.strerror}", ctx, param) from error
