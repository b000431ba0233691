"""Where a command works: its workspace and store, who is at the terminal, the options that many commands have, and missing packages.

The store is made only for a command that writes into it.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from adjourn.cli.start import StoreContext
from adjourn.clients.options import options_of
from adjourn.errors import AdjournError, InvalidError, NotFoundError, UsageError
from adjourn.host.executables import leave_working_folder
from adjourn.store.url import check_argument

if TYPE_CHECKING:
    from adjourn.log.event import Actor
    from adjourn.store.base import Store


_F = TypeVar("_F", bound=Callable[..., Any])


class CommandContext(StoreContext):
    """The workspace of a command of the framework, which closes the store when the command ends."""

    _ask: Callable[[str], None] | None = None

    def make_store(self) -> Store:
        if self._store is None and (context := click.get_current_context(silent=True)):
            context.call_on_close(self.close)
        store = super().make_store()
        return store if self._ask is None else cast("Store", AskingStore(store, self._ask))

    def check_when_writing(self, command: str) -> None:
        """Have the command checked before it first writes into the store: by then, it has checked its arguments."""
        refused: list[AdjournError] = []

        def ask(stream: str) -> None:
            if refused:  # a writer that tries again asks nobody again
                raise refused[0]
            if self._ask is None:
                return
            self._ask = None  # the check itself writes
            try:
                check_person(command, self, attended=True, task=stream)
            except BaseException as error:
                self._ask = ask
                if isinstance(error, AdjournError):
                    refused.append(error)
                raise

        self._ask = ask


def user() -> Actor:
    """Who is at the terminal, by their user id: what the environment says anybody can set."""
    from adjourn.log.event import Actor

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user id without an account
        name = str(os.getuid())
    return Actor(name, "human")


def check_person(command: str, context: CommandContext | None, *, attended: bool, task: str = "") -> None:
    """Raise `RefusedError` unless whoever runs the command may speak for a person. `task` is what it is about, if that is known."""
    from adjourn.clients import person  # only for such commands
    from adjourn.host import own_settings

    changes = context.changes if context else (own_settings.home(),)
    there = context.store_or_none() if context else None
    person.check(f"adjourn {command}", changes, there, attended=attended, task=task)


_SAYS = "adjourn.says"


def check_when_said(command: str, context: CommandContext | None, *, attended: bool) -> None:
    """Have the command checked when it calls `speak`."""
    click.get_current_context().meta[_SAYS] = partial(check_person, command, context, attended=attended)


def speak() -> None:
    """Check that whoever runs this command may speak for a person: its arguments are checked, and nothing is changed yet."""
    click.get_current_context().meta.pop(_SAYS)()


def time_of(_context: click.Context, _parameter: click.Parameter, text: str) -> int | None:
    """A time in milliseconds. Without a zone it is this machine's."""
    if not text:
        return None
    from datetime import datetime  # 2 ms, where a time is given

    from adjourn.log.event import timestamp

    try:
        moment = int(datetime.fromisoformat(text).timestamp() * 1000)
        timestamp(moment)
    except (ValueError, OverflowError, OSError, InvalidError):
        raise UsageError(f"not a time: {text[:40]!r}", "write it as 2026-11-28T02:00Z") from None
    return moment


# --- what a shell completes

MAX_NAMES: Final = 1000
_PLAIN: Final = re.compile(r"[A-Za-z0-9._/-]{1,200}")


class CompletedText(StringParamType):
    """A text that a shell completes: the name of a stored `task` or `checkpoint`, or the path of a `file` or `dir`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del param
        if self._kind in ("file", "dir"):
            return [CompletionItem(incomplete, type=self._kind)]
        context = ctx.params.get("context") or StoreContext()
        return [CompletionItem(name) for name in stored_names(context, self._kind) if name.startswith(incomplete)]


def stored_names(context: StoreContext, kind: str) -> list[str]:
    """The newest names of tasks or checkpoints that no shell expands; none where there is no store, or it cannot be read."""
    from adjourn.tasks.task import tasks_of

    try:
        store = context.store_or_none()
        if store is None:
            return []
        if kind == "task":
            names = list(tasks_of(store))
        else:
            names = [ref.partition("/")[2] for ref in store.refs("checkpoint/")]
    except AdjournError:
        return []
    finally:
        context.close()
    return [name for name in sorted(names)[-MAX_NAMES:] if _PLAIN.fullmatch(name)]


TASK_NAME: Final = CompletedText("task")
CHECKPOINT_NAME: Final = CompletedText("checkpoint")
FILE_PATH: Final = CompletedText("file")
FOLDER_PATH: Final = CompletedText("dir")


# --- options that many commands have


def example(*lines: str) -> str:
    """The end of a command's help."""
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])


def flag(spelled: str, meaning: str, *, dest: str = "") -> Callable[[_F], _F]:
    """Add a switch: `flag("-y, --yes", "Delete them.")`."""
    return click.option(*spelled.split(", "), *filter(None, [dest]), is_flag=True, help=meaning)


def text_option(
    spelled: str, meaning: str, *, dest: str = "", kind: StringParamType | None = None, **settings: Any
) -> Callable[[_F], _F]:
    """Add an option that takes a text: `text_option("--out FILE", "Write to FILE.")`. A FILE or DIR is completed as a path."""
    flags, metavar = spelled.rsplit(" ", 1)
    kind = kind or {"FILE": FILE_PATH, "DIR": FOLDER_PATH}.get(metavar)
    if "multiple" not in settings:
        settings.setdefault("default", "")
    names = (*flags.split(", "), *filter(None, [dest]))
    return click.option(*names, metavar=metavar, type=kind, help=meaning, **settings)


def in_folder(function: _F) -> _F:
    """Adds -C."""
    option = click.option(
        "-C",
        metavar="DIR",
        type=FOLDER_PATH,
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
    return flag("--json", "Print one JSON document.", dest="as_json")(function)


def click_options(program: str) -> list[click.Parameter]:
    """The options of `proxy`, `hook` or `run`, as the framework has them. The first two only show them, and parse their own."""
    parameters: list[click.Parameter] = []
    for option in options_of(program):
        text = option.help + (f"  [${option.environment}]" if option.environment else "")
        settings: dict[str, Any] = {"metavar": option.metavar} if option.metavar else {"is_flag": True}
        if isinstance(option.choices, tuple) and option.choices:
            settings["type"] = click.Choice(option.choices)
        elif option.flag == "--task":
            settings["type"] = TASK_NAME
        elif option.metavar == "FILE":
            settings["type"] = FILE_PATH
        if program == "run" and option.metavar == "SECONDS":
            settings["type"] = click.FloatRange(min=0)
        elif program == "run" and option.metavar:
            settings["default"] = ""
        parameters.append(click.Option([option.flag], help=text, **settings))
    return parameters


def with_policy(function: _F) -> _F:
    """Adds --policy."""
    return text_option("--policy FILE", "Policy, .aex or JSON (default: .aex/policy.aex, then aex.policy.aex).")(
        function
    )


def with_model(what: str) -> Callable[[_F], _F]:
    """Adds --model and --model-handler; `what` says what the model does."""
    model = text_option(
        "--model PROVIDER", f"Model that {what}: anthropic, openai, or PROVIDER:MODEL (default: $AEX_MODEL)."
    )
    handler = text_option("--model-handler MODULE:FUNCTION", f"Your own function that {what}, if no model is named.")
    return lambda function: model(handler(function))


def _go(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value:
        try:
            os.chdir(value)
            leave_working_folder()
        except OSError as error:
            raise click.BadParameter(f"{value}: {error.strerror}", ctx, param) from error


# --- A store that asks before it is written

_WRITES = frozenset(("append_many", "put_blob", "forget", "drop"))
_READS = frozenset((
    "head", "read", "streams", "ref", "refs", "get_blob", "blobs", "watch", "close", "place", "shows", "writable", "schema", "now",
))  # fmt: skip
_CACHES = "fold/"
"""Refs that are sealed, and say nothing that the history does not: reading a task may write one."""


class AskingStore:
    """`below`, of which every write waits for `ask`, which gets the stream that is appended to ("" for other writes)."""

    def __init__(self, below: Store, ask: Callable[[str], None]) -> None:
        self._below = below
        self._ask = ask

    def append(self, stream: str, *arguments: Any, **options: Any) -> Any:
        """As `Store.append`."""
        self._ask(stream)
        return self._below.append(stream, *arguments, **options)

    def swap(self, name: str, *arguments: Any, **options: Any) -> None:
        """As `Store.swap`."""
        if not name.startswith(_CACHES):
            self._ask("")
        self._below.swap(name, *arguments, **options)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._below, name)
        if name in _READS:
            return attribute
        if name not in _WRITES:  # what is not known may write
            self._ask("")
            return attribute

        def asked(*arguments: Any, **options: Any) -> Any:
            self._ask("")
            return attribute(*arguments, **options)

        return asked


# --- packages that only some commands need


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """What is imported in this block may need an extra. Raises `NotFoundError` for a package that is missing, with how to get it."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "adjourn":
            raise
        raise NotFoundError(f"the package {error.name} is not installed", f"pip install 'adjourn[{extra}]'") from error
