"""`adjourn continue`: continue a session of any client, from the transcript that the client keeps itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from adjourn.cli.context import CommandContext, at_store, example, flag, for_machines
from adjourn.cli.output import cut, say, say_json, say_table
from adjourn.cli.terminal import interactive
from adjourn.errors import InvalidError, NotFoundError, UsageError
from adjourn.log.event import timestamp
from adjourn.text.times import ago

if TYPE_CHECKING:
    from adjourn.sessions.page import Account
    from adjourn.sessions.reader import SessionFile
    from adjourn.sessions.story import SessionStory
    from adjourn.tasks.ledger import Ledger

MAX_ROWS = 20
"""Sessions that a list shows without --all."""


@click.command(
    name="continue",
    epilog=example("adjourn continue --list", "adjourn continue --last", "adjourn continue 5f3c --bytes 4096"),
)
@click.argument("name", metavar="[SESSION]", default="")
@flag("--last", "Take the session with the newest record.")
@flag("--list", "List the sessions of this folder.", dest="lists")
@flag("--all", "With --list: the sessions of all folders.", dest="everywhere")
@click.option(
    "--bytes",
    "limit",
    metavar="N",
    type=click.IntRange(min=1024),
    default=8192,
    help="Size of the text (default: 8192).",
)
@at_store
@for_machines
def continue_(
    context: CommandContext, name: str, *, last: bool, lists: bool, everywhere: bool, limit: int, as_json: bool
) -> None:
    """Print the first prompt for an agent that continues a session: what was asked, what was done, and what does not hold.

    SESSION is an id, or the beginning of one, of any client and folder. Without it, the unfinished session of this folder. Nothing has to
    be set up: the text comes from the client's own transcript, compared with the files, git, and adjourn's history where there is one.
    """
    from adjourn.sessions import catalog

    if everywhere and not lists:
        raise UsageError("--all belongs to --list", "list all sessions: adjourn continue --list --all")
    if name and (last or lists):
        raise UsageError("a session is named, so --last and --list have nothing to choose", "give the one or the other")
    here = os.path.realpath(os.curdir)
    files = catalog.sessions([] if everywhere else catalog.trees_of(here)) if lists or not name else []
    if lists:
        _print_list(context, files, everywhere=everywhere, as_json=as_json)
        return
    file, story = (catalog.named(name), None) if name else _choose(context, files, last=last)
    others = [other for other in files if other is not file][:5]
    account = catalog.account(file, here, _ledgers(context), others, story)
    _print(account, limit, as_json=as_json)


def _print(account: Account, limit: int, *, as_json: bool) -> None:
    from adjourn.sessions.page import page

    text = page(account, limit)
    if not as_json:
        say(text.rstrip("\n"))
        return
    story = account.story
    say_json(
        client=story.client,
        session=story.id,
        folder=story.folder,
        ended=story.ending,
        prompts=story.prompts_made,
        calls=story.calls_made,
        inDoubt=len(story.in_doubt),
        verdicts=[{"verdict": verdict.verdict, "evidence": verdict.evidence} for verdict in account.verdicts],
        text=text,
    )


def _choose(
    context: CommandContext, files: list[SessionFile], *, last: bool
) -> tuple[SessionFile, SessionStory | None]:
    """The session that is meant. Of several with unfinished work a person chooses."""
    from adjourn.sessions import catalog

    if not files:
        raise NotFoundError(
            "no client has a session in this folder", "name a session, or list all: adjourn continue --list --all"
        )
    if last or len(files) == 1:
        return files[0], None
    unfinished = catalog.unfinished(files)
    if len(unfinished) < 2:
        return unfinished[0] if unfinished else (files[0], None)
    rows = [file for file, _ in unfinished]
    if not interactive():
        names = ", ".join(f"{file.id[:13]} ({file.client})" for file in rows[:5])
        raise InvalidError(
            f"{len(rows)} sessions of this folder are unfinished: {names}",
            "name one, or take the newest: adjourn continue --last",
        )
    say_table(("", *_HEAD), [(str(number), *row) for number, row in enumerate(_rows(context, rows), 1)])
    number = click.prompt("Which one", type=click.IntRange(1, len(rows)), err=True)
    return unfinished[number - 1]


_HEAD = ("SESSION", "CLIENT", "LAST", "ENDED", "ASKED", "FILES", "FIRST PROMPT")


def _print_list(context: CommandContext, files: list[SessionFile], *, everywhere: bool, as_json: bool) -> None:
    if as_json:
        say_json(sessions=[
            {"session": file.id, "client": file.client, "folder": file.folder, "started": file.started, "touched": file.touched,
             "firstPrompt": _safe(file.title), "forks": file.forks, "bytes": file.size}
            for file in files
        ])  # fmt: skip
        return
    if not files:
        say("no sessions yet")
        return
    shown = files[:MAX_ROWS]
    if everywhere:
        rows = [
            (file.id[:8], file.client, _age(context, file), cut(file.folder, 40), _safe(file.title)) for file in shown
        ]
        say_table(("SESSION", "CLIENT", "LAST", "FOLDER", "FIRST PROMPT"), rows)
    else:
        say_table(_HEAD, _rows(context, shown))
    if len(files) > len(shown):
        say(f"{len(files) - len(shown)} older; all of them: --json")


def _rows(context: CommandContext, files: list[SessionFile]) -> list[tuple[str, ...]]:
    from adjourn.sessions import catalog

    rows: list[tuple[str, ...]] = []
    for file in files:
        story = catalog.reader_of(file).read(file)
        ended = {
            "broke off in a call": "in a call",
            "interrupted by the person": "interrupted",
            "stopped by a limit": "limit",
        }
        rows.append((
            file.id[:8] + ("+" if file.forks else ""), file.client, _age(context, file), ended.get(story.ending, story.ending),
            str(story.prompts_made), str(len(story.changes)), _safe(file.title),
        ))  # fmt: skip
    return rows


def _age(context: CommandContext, file: SessionFile) -> str:
    return ago(file.touched, context.now) if file.touched else ago(timestamp(int(file.stamp * 1000)), context.now)


def _safe(text: str) -> str:
    from adjourn.sessions.secrets import Secrets

    return Secrets([text]).hide(text)


def _ledgers(context: CommandContext) -> list[Ledger]:
    """The ledgers of this workspace's tasks; none without a store."""
    from adjourn.cli.task_view import readable_ledgers

    return [ledger for _, ledger in readable_ledgers(context)] if context.store_or_none() is not None else []
