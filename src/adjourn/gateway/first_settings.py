"""`adjourn serve init`: adds servers to `adjourn.toml`, and rules for the tools that they list to the policy.

The rules are those that `adjourn init` writes: one table says what a tool does. What is there already stays; nothing is written that was
not shown, unless --yes says so.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from adjourn.aex.layers import discover
from adjourn.aex.match import KnownTools, canonical_server
from adjourn.cli import clients
from adjourn.cli.clients import Asked, Shown
from adjourn.cli.context import check_person, example, flag, for_machines, in_folder, needing, text_option
from adjourn.cli.output import complain, counted, say_facts
from adjourn.cli.terminal import Spinner
from adjourn.clients.options import connect_words
from adjourn.errors import UsageError
from adjourn.host.finding import Workspace, workspace_of
from adjourn.host.workspace import locked
from adjourn.setup import first_policy, policy_plan, toml_text, undo
from adjourn.setup.first_policy import ListedServer, ruled
from adjourn.setup.places import IGNORED, POLICY, bytes_or_none, home, replace
from adjourn.setup.planning import IGNORED_FILES, SettingsChange, SetupNote, SetupPlan
from adjourn.setup.servers import ServerEntry

if TYPE_CHECKING:
    from adjourn.gateway.settings import ServerSettings
    from adjourn.setup.probe import Probed

SETTINGS_FILE = "adjourn.toml"
LISTEN = "127.0.0.1:8080"
_HEAD = "# Written by `adjourn serve init`; yours to edit. Check it: adjourn serve --check\n"
_LOCAL = re.compile(r"(127\.[0-9.]+|localhost|\[::1\]):[0-9]+")


@click.command(
    "init",
    short_help="Write adjourn.toml, and a policy from the tools that its servers list.",
    epilog=example(
        "adjourn serve init tracker=https://tracker.example/mcp 'files=npx -y @modelcontextprotocol/server-filesystem .'",
        "adjourn serve init --diff",
    ),
)
@click.argument("servers", nargs=-1, metavar="[NAME=URL | NAME=COMMAND]...")
@text_option("--config FILE", f"The settings (default: {SETTINGS_FILE} in the workspace).")
@text_option("--listen HOST:PORT", f"Where clients reach a new gateway (default: {LISTEN}).")
@flag("--observe", "Write a policy that only records and refuses nothing yet.")
@flag("--diff", "Show every change as a diff.")
@flag("--yes, -y", "Change the files without asking.")
@in_folder
@for_machines
def init(
    servers: tuple[str, ...], *, config: str, listen: str, observe: bool, diff: bool, yes: bool, as_json: bool
) -> int:
    """Add servers to adjourn.toml, and write rules for the tools of all servers there.

    Starts each server that is a command once, and calls no tool. The policy allows tools that only read, asks a person about tools that
    write or that read from the network, and denies tools with destructive names. Rules that are there stay: run it again after you added
    or updated a server.

    A --listen that other machines reach gets API keys: adjourn serve keys add.

    Exit code 1 if you did not confirm.
    """
    with needing("gateway"):
        from adjourn.gateway.preflight import probe_servers
        from adjourn.gateway.settings import settings_of
    workspace = workspace_of()
    path = os.path.abspath(config or os.path.join(workspace.root, SETTINGS_FILE))
    before = bytes_or_none(path, os.path.dirname(path))
    after = with_servers((before or b"").decode(errors="replace"), servers, listen).encode()
    settings = settings_of(after, path)
    with Spinner(f"asking {counted(len(settings.servers), 'server')} for their tools"):
        probed = probe_servers(settings.servers, workspace.tree)
    setup, listed = planned(workspace, settings.servers, probed, observe=observe)
    how = Asked(yes=yes, no_start=False, diff=diff, as_json=as_json)
    changes = [Shown(each.path, workspace.root, each.before, each.after, each.about) for each in setup.pending]
    if after != before:
        about = ["settings of the gateway" if before is None else f"{counted(len(servers), 'server')} added"]
        changes.insert(
            0, Shown(path, workspace.root, None if before is None else before.decode(), after.decode(), about)
        )
    again = "start it, and run adjourn serve init again"
    notes = [
        SetupNote(path, f"no rules for {server.name}, it {server.probed.failure}", again)
        for server in listed
        if server.probed.failure
    ]
    tell = partial(clients.tell, root=workspace.root, as_json=as_json, servers=listed)
    if not changes:
        tell("nothing to change", [], notes, done=False)
        return 0
    if not as_json and (diff or not yes):
        clients.show_tools(listed)
    if not clients.agreed_to_change(f"{counted(len(changes), 'file')} to change", changes, how):
        tell("nothing was changed", changes, notes, done=False)
        complain("you did not confirm", "answer y when asked, or run it with --yes")
        return 1
    check_person("serve init", None, attended=False)  # more is permitted from now on
    if after != before:  # first: a server without rules is refused, rules without a server would wait for one
        with locked(os.path.dirname(path)):
            replace(path, os.path.dirname(path), after, expect=before)
    if setup.pending:
        undo.make(setup.pending, workspace.root)
    message = f"set up: {counted(len(settings.servers), 'server')}"
    tell(message, changes, notes, done=True)
    if not as_json:
        _show(listed, [change.name for change in changes], needs_key=settings.auth is not None and before is None)
    return 0


def with_servers(text: str, servers: Sequence[str], listen: str) -> str:
    """The settings `text` ("": none yet) with further servers. Raises `UsageError`, `InvalidError`."""
    if text and listen:
        raise UsageError("--listen is for new settings", "edit `listen` in the file")
    if not (text or servers):
        raise UsageError("no server is named", "name one: adjourn serve init NAME=URL, or 'NAME=COMMAND'")
    if not text:
        where = listen or LISTEN
        text = f"{_HEAD}listen = {json.dumps(where)}\n"
        if not _LOCAL.fullmatch(where):
            text += "\n[auth]\nkeys = true\n"
    for server in servers:
        name, _, place = server.partition("=")
        if name in toml_text.read(text).get("servers", {}):
            raise UsageError(f"the server {name[:80]} is there already", "give it another name, or edit the file")
        text = toml_text.with_table(
            text, ("servers", name), {"url": place} if _is_url(place) else {"command": _words(server)}
        )
    return text


def _is_url(place: str) -> bool:
    return place.lower().startswith(("http://", "https://"))


def _words(server: str) -> list[str]:
    name, _, place = server.partition("=")
    try:
        words = shlex.split(place)
    except ValueError:
        words = []
    if not name or not words:
        raise UsageError(
            f"{server[:80]!r} is not a server", "write NAME=URL, or 'NAME=COMMAND WITH ARGUMENTS' in quotes"
        )
    return words


def planned(
    workspace: Workspace, servers: Mapping[str, ServerSettings], probed: Mapping[str, Probed], *, observe: bool
) -> tuple[SetupPlan, list[ListedServer]]:
    """The changes of the policy for what servers list, and the servers as the policy names them."""
    setup = SetupPlan(workspace.root, home(os.environ))
    policy, ignored = (os.path.join(workspace.root, each) for each in (POLICY, IGNORED))
    if discover(workspace.root) is None:
        text = first_policy.compose_gateway((), observe=observe)
        setup.changes[policy] = SettingsChange(policy, None, text, ["a first policy"])
    if bytes_or_none(ignored, workspace.root) is None:
        setup.changes[ignored] = SettingsChange(ignored, None, IGNORED_FILES, ["git ignores the history"])
    answers = {}
    for title, server in servers.items():
        words = server.command or connect_words(server.url)
        name = canonical_server(title)
        setup.servers.append(ServerEntry(name, SETTINGS_FILE, words, {}, title=title, url=server.url))
        answers[name] = probed[title]
    listing = {name: tuple(answer.known_tools) for name, answer in answers.items() if not answer.failure}
    known = KnownTools(listing, dict.fromkeys(listing, ""))
    asked = [(entry, answers[entry.name]) for entry in policy_plan.to_probe(setup)]
    written = undo.written_policies(workspace.root)
    return setup, policy_plan.with_tools(setup, asked, observe=observe, known=known, written=written, for_gateway=True)


def _show(listed: Sequence[ListedServer], changed: Sequence[str], *, needs_key: bool) -> None:
    """What was found and written, what clients may do now, what to do next."""
    tools = [tool for server in listed for tool in ruled(server)]
    rows = [("found", "; ".join(map(clients.found, listed))), ("changed", ", ".join(changed))]
    if tools:
        named = [clients.named(tools, ruling) for ruling in ("allow", "confirm", "deny")]
        rows += clients.verdict_rows(*named)
    if needs_key:
        rows.append(("key", "adjourn serve keys add NAME --human"))
    rows.append(("next", "read .aex/policy.aex, then: adjourn serve --check"))
    say_facts(*((f"  {name}", value) for name, value in rows if value))
