"""`adjourn continue`: continue a session of any client, from the transcript that the client keeps itself."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from adjourn.cli.context import CommandContext, at_store, example, flag, for_machines, text_option, with_model
from adjourn.cli.output import complain, cut, say, say_json, say_table
from adjourn.cli.terminal import interactive
from adjourn.errors import AdjournError, InvalidError, NotFoundError, UsageError
from adjourn.host.executables import find
from adjourn.log.event import timestamp
from adjourn.text.times import ago

if TYPE_CHECKING:
    from adjourn.sessions.evidence import LedgerCall
    from adjourn.sessions.page import Account
    from adjourn.sessions.reader import SessionFile
    from adjourn.sessions.story import SessionStory

MAX_SHOWN = 400
"""Characters of a prompt in a list."""
MAX_ROWS = 20
"""Sessions that a list shows without --all."""


STARTS: Final = {
    "claude": ("claude",),
    "codex": ("codex",),
    "gemini": ("gemini", "-i"),
    "opencode": ("opencode", "--prompt"),
    "copilot": ("copilot", "-i"),
}
"""How each client is started with a first prompt, which follows as one argument."""
CLIPBOARDS: Final = (
    ("wl-copy",), ("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input"), ("pbcopy",), ("clip.exe",),
)  # fmt: skip
"""Programs that take a text for the clipboard: Wayland's, X11's, those of macOS and of Windows below WSL."""
COPY_SECONDS = 10
MAX_ARGUMENT = 16 * 1024
"""Bytes of a text that is passed as an argument; a longer one is in a file, which the prompt names."""


@click.command(
    name="continue",
    epilog=example("adjourn continue --list", "adjourn continue --last", "adjourn continue 5f3c --in codex"),
)
@click.argument("name", metavar="[SESSION]", default="")
@flag("--last", "Take the session with the newest record.")
@flag("--list", "List the sessions of this folder.", dest="lists")
@flag("--all", "With --list or --grep: the sessions of all folders.", dest="everywhere")
@text_option("--grep TEXT", "List the sessions in whose prompts or answers TEXT occurs.")
@click.option(
    "--in", "client", type=click.Choice(list(STARTS)), help="Start this client with the text as its first prompt."
)
@flag("--print", "Print the text (the default).", dest="prints")
@flag("--copy", "Copy the text to the clipboard instead.", dest="copies")
@click.option(
    "--bytes",
    "limit",
    metavar="N",
    type=click.IntRange(min=1024),
    default=8192,
    help="Size of the text (default: 8192).",
)
@flag(
    "--summarise",
    "Add a summary by the model; the session's words are sent to it. Says first how much.",
    dest="summarises",
)
@with_model("summarises, with --summarise")
@at_store
@for_machines
def continue_(
    context: CommandContext,
    name: str,
    *,
    last: bool,
    lists: bool,
    client: str | None,
    limit: int,
    as_json: bool,
    **more: Any,
) -> None:
    """Print the first prompt for an agent that continues a session: what was asked, what was done, and what does not hold.

    SESSION is an id, or the beginning of one, of any client and folder. Without it, the unfinished session of this folder. Nothing has to
    be set up: the text comes from the client's own transcript, compared with the files, git, and adjourn's history where there is one.
    """
    from adjourn.sessions import catalog

    everywhere, grep, prints = more["everywhere"], more["grep"], more["prints"]
    if everywhere and not (lists or grep):
        raise UsageError("--all belongs to --list and --grep", "list all sessions: adjourn continue --list --all")
    if (name and last) or ((lists or grep) and (name or last or client)):
        raise UsageError("--list and --grep take no session; a named session needs no --last", "use one of them")
    copies = more["copies"]
    if (client or copies) and (prints or as_json or (client and copies)):
        raise UsageError("--in and --copy take the text, so nothing is printed", "leave out --print and --json")
    here = os.path.realpath(os.curdir)
    trees = [] if everywhere else catalog.trees_of(here)
    find = catalog.listed if lists and not as_json else catalog.sessions
    files = find(trees) if not name else []
    if grep:
        _print_found(context, catalog.matching(files, grep), as_json=as_json)
    elif lists:
        _print_list(context, files, everywhere=everywhere, as_json=as_json)
    else:
        file, story = (catalog.named(name), None) if name else _choose(context, files, last=last)
        others = catalog.others_of(file, files or catalog.sessions([file.folder]))
        account = catalog.account(file, here, _ledger_calls(context), others, story)
        text = _text(account, limit, more) if more["summarises"] else _page(account, limit)
        if client:
            _start(client, text, context.root)
        if copies:
            _copy(text, context.root)
            return
        _print(account, text, as_json=as_json)


def _page(account: Account, limit: int) -> str:
    from adjourn.sessions.page import page

    return page(account, limit)


def _text(account: Account, limit: int, options: dict[str, Any]) -> str:
    """The page, and behind it a summary by the model in at most a quarter of the bytes. The page stands where the model fails."""
    from adjourn.adapters.models import choose
    from adjourn.sessions import summary

    model = choose(options["model"] or "", options["model_handler"] or "")
    turns = summary.turns_of(account.story)
    cost = f"about {summary.cost_of(turns):,} tokens of this session are sent to the model; its answer has about {summary.ANSWER_TOKENS}"
    complain(cost)
    if interactive() and not click.confirm("Send them", err=True):
        return _page(account, limit)
    try:
        answer = model.complete(summary.SYSTEM, summary.prompt_of(turns))
    except AdjournError as error:
        complain(f"no summary: {error.message}", error.remedy)
        return _page(account, limit)
    cited, dropped = summary.checked(answer.text, turns)
    added = summary.section(cited, dropped, turns, answer.model)
    while cited and len(added.encode()) > limit // 4:
        cited = cited[:-1]
        added = summary.section(cited, dropped, turns, answer.model)
    return _page(account, limit - len(added.encode()) - 1) + "\n" + added


def _start(client: str, text: str, workspace: str) -> NoReturn:
    """Replace this process by the client. It gets no option that the person did not give."""
    program = find(client, workspace)
    if program is None:
        raise NotFoundError(f"{client} is not on PATH", "install it, or print the text: adjourn continue --print")
    if len(text.encode()) > MAX_ARGUMENT:
        import tempfile

        handle, path = tempfile.mkstemp(prefix="adjourn-continue-", suffix=".md")  # for this user alone
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        text = f"Continue the work that this file describes. Read it first, whole: {path}"
    os.execve(program, [*STARTS[client], text], dict(os.environ))  # noqa: S606  # the person's own client, without a shell


def _copy(page: str, workspace: str) -> None:
    """Give the text to the first program that puts it on the clipboard."""
    text = page.encode()
    for name, *words in CLIPBOARDS:
        if (program := find(name, workspace)) is not None and _gives([program, *words], text):
            say(f"copied {len(text):,} bytes to the clipboard ({name})")
            return
    raise NotFoundError(
        f"no program puts text on the clipboard ({', '.join(name for name, *_ in CLIPBOARDS)})",
        "install one, or print the text: adjourn continue --print",
    )


def _gives(command: list[str], text: bytes) -> bool:
    """Whether a program takes a text."""
    import subprocess

    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(  # found outside of the workspace
            command, input=text, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=COPY_SECONDS, check=False
        )
        return done.returncode == 0
    return False


def _print_found(context: CommandContext, found: list[tuple[SessionFile, str]], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {"session": file.id, "client": file.client, "folder": file.folder, "line": _safe(line)}
            for file, line in found
        ]
        say_json(sessions=rows)
    elif found:
        short = _short([file for file, _ in found])
        table = [(short[file.id], file.client, _age(context, file), _safe(line)) for file, line in found]
        say_table(("SESSION", "CLIENT", "LAST", "LINE"), table)
    else:
        say("no session has that text")


def _print(account: Account, text: str, *, as_json: bool) -> None:
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
        short = _short(rows)
        names = ", ".join(f"{short[file.id]} ({file.client})" for file in rows[:5])
        raise InvalidError(
            f"{len(rows)} sessions of this folder are unfinished: {names}",
            "name one, or take the newest: adjourn continue --last",
        )
    say_table(("", *_HEAD), [(str(number), *row) for number, row in enumerate(_rows(context, rows), 1)])
    number = click.prompt("Which one", type=click.IntRange(1, len(rows)), err=True)
    return unfinished[number - 1]


_HEAD = ("SESSION", "CLIENT", "LAST", "ENDED", "ASKED", "FILES", "FIRST PROMPT")


def _print_list(context: CommandContext, files: list[SessionFile], *, everywhere: bool, as_json: bool) -> None:
    from adjourn.sessions import catalog

    if as_json:
        say_json(sessions=[
            {"session": file.id, "client": file.client, "folder": file.folder, "started": file.started, "touched": file.touched,
             "firstPrompt": _safe(file.title), "forks": file.forks, "bytes": file.size,
             "isTried": bool(catalog.reader_of(file).tried)}
            for file in files
        ])  # fmt: skip
        return
    if not files:
        say("no sessions yet")
        return
    shown = files[:MAX_ROWS]
    catalog.add_titles(shown)
    readers = {reader.key: reader for reader in map(catalog.reader_of, shown)}
    if everywhere:
        short = _short(shown)
        rows = [
            (short[file.id], file.client, _age(context, file), cut(file.folder, 40), _safe(file.title))
            for file in shown
        ]
        say_table(("SESSION", "CLIENT", "LAST", "FOLDER", "FIRST PROMPT"), rows)
    else:
        say_table(_HEAD, _rows(context, shown))
    if len(files) > len(shown):
        say(f"{len(files) - len(shown)} older; all of them: --json")
    if untried := [reader.name for reader in readers.values() if not reader.tried]:
        say(f"known from public sources only, no file was tried: {', '.join(untried)}")


def _rows(context: CommandContext, files: list[SessionFile]) -> list[tuple[str, ...]]:
    from adjourn.sessions import catalog

    rows: list[tuple[str, ...]] = []
    short = _short(files)
    for file in files:
        story = catalog.reader_of(file).read(file)
        ended = {
            "broke off in a call": "in a call",
            "interrupted by the person": "interrupted",
            "stopped by a limit": "limit",
        }
        rows.append((
            short[file.id] + ("+" if file.forks else ""), file.client, _age(context, file), ended.get(story.ending, story.ending),
            str(story.prompts_made), str(len(story.changes)), _safe(file.title),
        ))  # fmt: skip
    return rows


def _short(files: list[SessionFile]) -> dict[str, str]:
    """The beginning of each id that names no other session of these, eight characters at the least."""
    ids = {file.id for file in files}
    short = {}
    for id_ in ids:
        length = 8
        while length < len(id_) and sum(other.startswith(id_[:length]) for other in ids) > 1:
            length += 1
        short[id_] = id_[:length]
    return short


def _age(context: CommandContext, file: SessionFile) -> str:
    return ago(file.touched, context.now) if file.touched else ago(timestamp(int(file.stamp * 1000)), context.now)


def _safe(text: str) -> str:
    from adjourn.sessions.texts import Secrets

    return Secrets([text]).hide(text)[:MAX_SHOWN]


def _ledger_calls(context: CommandContext) -> list[LedgerCall]:
    """The calls with effects of this workspace's tasks: those in doubt, and the last ones of each; none without a store."""
    from adjourn.cli.task_view import doubts, holders, readable_ledgers
    from adjourn.handover.calls import recent_calls
    from adjourn.sessions.evidence import LedgerCall

    if context.store_or_none() is None:
        return []
    calls: list[LedgerCall] = []
    for task, ledger in readable_ledgers(context):
        in_doubt = [call for call in doubts(ledger, holders(context, ledger)) if call.effectful]
        calls += [LedgerCall(call.call, call.tool, call.arguments, call.since, task) for call in in_doubt]
        names = {call.call for call in in_doubt}
        with suppress(AdjournError):
            made = recent_calls(context.store, ledger, timestamp(context.now)).made.values()
            calls += [
                LedgerCall(call.call, call.tool, call.argument, call.at, task, call.outcome)
                for call in made
                if call.effectful and call.call not in names and call.call not in ledger.open_calls
            ]
    return calls
