"""`adjourn code`."""

from __future__ import annotations

import os
from typing import Any

import click

from adjourn.cli.shared.context import example, for_machines, in_folder, needing
from adjourn.cli.shared.output import complain, safe, say, say_facts, say_json
from adjourn.errors import NotFoundError
from adjourn.host.clock import now
from adjourn.text.times import ago

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _address(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    host = host.strip("[]") or _LOOPBACK[0]
    if not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter(f"{value}: not a port", ctx, param)
    if host not in _LOOPBACK:
        raise click.BadParameter(
            f"{host}: whoever can reach the port can use it, so it stays on this machine", ctx, param
        )
    return host, int(port)


@click.command("code", epilog=example("adjourn code", "adjourn code --http 8765", "adjourn code --resume"))
@click.option(
    "--http",
    metavar="[HOST:]PORT",
    callback=_address,
    help="Serve Streamable HTTP on this machine instead of stdio.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Show the session that was interrupted here, and its current step. Starts nothing.",
)
@click.option(
    "--strictness",
    type=click.Choice(["lenient", "standard", "strict"]),
    default="standard",
    show_default=True,
    help="Set how much evidence a phase requires.",
)
@click.option(
    "--store",
    default="",
    metavar="URL",
    help="Store of the history (default: $ADJOURN_STORE, else .aex/adjourn.db).",
)
@click.option("--search-only", is_flag=True, help="Serve the search tools only, without sessions.")
@click.option(
    "--no-embed",
    is_flag=True,
    help="Compute no vectors; use those that the index has (extra `semantic`).",
)
@click.option(
    "--symbols", is_flag=True, help="Serve read_symbol, outline, rename_symbol and diagnostics, too."
)
@click.option(
    "--vectors",
    type=click.Choice(["pause", "continue"]),
    help="Let the servers of this repository compute no vectors, or compute them again. Starts nothing.",
)
@click.option(
    "--test-command",
    "test_commands",
    multiple=True,
    metavar="COMMAND",
    help="Run this, without a shell, before a session's change counts as verified; repeatable.",
)
@click.option(
    "--language-server",
    "language_servers",
    multiple=True,
    metavar="LANGUAGE=COMMAND",
    help="Resolve names of a language with this server, which is trusted as you trust it; repeatable.",
)
@in_folder
@for_machines
def code_(
    *,
    http: tuple[str, int] | None,
    resume: bool,
    vectors: str | None,
    as_json: bool,
    **served: Any,
) -> None:
    """Serve code intelligence over MCP: search, symbols, and sessions that continue where they were interrupted.

    The server speaks MCP on stdin and stdout; a client starts it. `adjourn init --code` sets it up.
    """
    if vectors is not None:
        from adjourn.code.index.vectors import set_paused
        from adjourn.code.model.repository import CodeRepository

        repository = CodeRepository(".")
        set_paused(repository, vectors == "pause")
        done = "pauses" if vectors == "pause" else "continues"
        say(f"the computing of vectors {done} in {safe(repository.home)}")
        return
    if resume:
        if http is not None:
            raise click.UsageError("--resume must be used alone: it shows a session and serves nothing")
        _show(as_json=as_json)
        return
    with needing("code"):
        from adjourn.code.server.codebases import CodeOptions, command_words, named_server
        from adjourn.code.server.http_transport import serve_http
        from adjourn.code.server.server import CodeServer
        from adjourn.code.server.stdio_transport import serve_stdio

        options = CodeOptions(
            strictness=served["strictness"],
            store=served["store"],
            search_only=served["search_only"],
            embeds=not served["no_embed"],
            symbols=served["symbols"],
            test_commands=[command_words("--test-command", text) for text in served["test_commands"]],
            language_servers=dict(map(named_server, served["language_servers"])),
        )
        with CodeServer(".", options) as server:
            if http is None and os.isatty(0):
                complain(
                    "waiting for an MCP client on stdin", "let a client start this command; Ctrl-C ends it"
                )
            if http is None:
                serve_stdio(server)
            else:
                serve_http(server, *http, lambda url: complain(f"serving {url}", "press Ctrl-C to stop"))


def _show(*, as_json: bool) -> None:
    """Where the sessions of this work tree stand."""
    from adjourn.code.model.repository import CodeRepository
    from adjourn.code.sessions.connection import read_all, summary
    from adjourn.code.sessions.sessions import status
    from adjourn.code.workflow.worktree import Worktree

    worktree = Worktree(CodeRepository("."))
    found, damaged = read_all(worktree.repository.root)
    for session, why in () if as_json else damaged.items():
        complain(
            f"the checkpoint of {safe(session)} is damaged: {safe(why)}", "resume: the store has the session"
        )
    if not found:
        raise NotFoundError("no interrupted session was found here", "start one in your client with /code")
    newest = found[-1]
    if as_json:
        say_json(
            {
                **status(newest, worktree),
                "checkpoint_at": newest.checkpoint_at,
                "others": [summary(one) for one in found[:-1]],
                "damaged": damaged,
            }
        )
        return
    told = status(newest, worktree)
    say(f"{safe(newest.session_id)}: step {told['step']}, {told['phase']}")
    progress = told["task_progress"]
    rows = [
        ("request", newest.query[:300]),
        ("saved", ago(newest.checkpoint_at, now())),
        ("branch", newest.task_branch_name or ""),
        ("tasks", f"{progress['completed']} of {progress['total']} done" if progress else ""),
        ("next", told["instruction"]),
        ("others", ", ".join(one.session_id for one in found[:-1])),
        ("resume", "/code --resume in your client"),
    ]
    say_facts(*rows)
