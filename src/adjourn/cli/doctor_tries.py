"""What `adjourn doctor` tries out: it starts the servers that clients are set up with, feeds their hooks a request that does nothing,
asks the adjourn on PATH for its version, and looks for sessions that were refused most of what they tried.

It calls no tool, and starts no server that nobody agreed to start: a repository may name any command.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Literal

from adjourn import __version__
from adjourn.aex.layers import discover
from adjourn.aex.match import NOTHING_KNOWN, meta_tool
from adjourn.cli import task_view
from adjourn.cli.clients import AskedStart, agreed
from adjourn.cli.context import CommandContext, check_person
from adjourn.cli.output import counted
from adjourn.cli.terminal import Spinner
from adjourn.clients.served_tools import keep_tools, known_tools
from adjourn.errors import AdjournError
from adjourn.findings import Finding
from adjourn.host import keys
from adjourn.host.executables import find
from adjourn.host.finding import top_of
from adjourn.host.workspace import create_file
from adjourn.log import kinds
from adjourn.log.event import decode
from adjourn.log.kinds import tool_name
from adjourn.policy.contract import read_contract
from adjourn.setup import policy_plan, undo
from adjourn.setup.checks import RegisteredServer, hooks_to_try, moved_programs, registered_servers
from adjourn.setup.places import IGNORED, home
from adjourn.setup.planning import IGNORED_FILES, SetupPlan, plan
from adjourn.setup.probe import Probed, probe_all
from adjourn.setup.servers import is_beside_python
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.lease import expire_dead_sessions
from adjourn.tasks.task import last_worked_on, tasks_of
from adjourn.tasks.work_index import is_complete, places, waiting_heads
from adjourn.text.quoting import last_lines

_SECONDS = 10
_VERSION = re.compile(r"\d+(\.\d+)+[-+.\w]*")
_HARMLESS = b'{"hook_event_name": "UserPromptSubmit", "prompt": "", "session_id": "doctor"}'
"""A request that a hook answers with nothing, and that leaves nothing behind."""
MANY_REFUSED = 5
_MAX_EVENTS = 2000
NEWEST_OF = 200
"""Tasks of each space that are looked at, the first ones in the index."""
_MAX_NAMED = 8


def problem(
    code: str, message: str, remedy: str, severity: Literal["error", "warning"] = "error", source: str = ""
) -> Finding:
    """A finding of the doctor's."""
    return Finding(code=code, message=message, severity=severity, source=source, help=remedy)


# --- servers


def servers(context: CommandContext, *, yes: bool, as_json: bool) -> Iterator[Finding]:
    """Start every server that settings of the workspace list, as its client would, list its tools, and look for rules for them."""
    setup = plan(os.path.realpath(context.root), home(os.environ), context.workspace.start)
    has_rules = not setup.broken and discover(context.root) is not None  # else other checks say it
    unruled = {entry.name for entry in policy_plan.to_probe(setup)} if has_rules else set()
    for finding in _started(context, yes=yes, as_json=as_json):
        if finding.code != "server-refused" or not any(f"server {name}:" in finding.message for name in unruled):
            yield finding
    if has_rules:
        yield from _unruled(context, setup, sorted(unruled))


def listed_servers(context: CommandContext) -> list[str]:
    """The servers that clients start here, with the files that list them."""
    registered = registered_servers(context.root, os.environ, home(os.environ), context.workspace.start)
    return [f"{server.entry.name} ({server.entry.path})" for server in registered]


def _unruled(context: CommandContext, setup: SetupPlan, names_unruled: Sequence[str]) -> Iterator[Finding]:
    """The tools and the servers that no rule names, and that `adjourn init` proposes rules for."""
    known = NOTHING_KNOWN
    with suppress(AdjournError):
        if (store := context.store_or_none()) is not None:
            known = known_tools(store)
    for server in policy_plan.new_tools(setup, known, undo.written_policies(setup.root)):
        names = [tool.name for tool in server.probed.tools]
        yield problem("tools-without-rules", f"server {server.name} lists {counted(len(names), 'tool')} that no rule names: {_first(names)}",
                    "see which rules they would get: adjourn init", "warning")  # fmt: skip
    for name in names_unruled:
        yield problem("server-without-rules", f"no rule names a tool of server {name}: all of them are refused",
                    "see which rules they would get: adjourn init", "warning")  # fmt: skip


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def _started(context: CommandContext, *, yes: bool, as_json: bool) -> Iterator[Finding]:
    registered = registered_servers(context.root, os.environ, home(os.environ), context.workspace.start)
    if _policy_is_broken(context.root):  # a proxy would not start, which is no fault of its server
        registered = [
            server._replace(start=server.own_start(context.root, os.environ)) if server.is_proxied else server
            for server in registered
        ]
    for server in registered:
        if server.reason:
            yield problem("server-untried", f"server {server.entry.name} {server.reason}",
                        "start its client to try it", "warning", server.entry.path)  # fmt: skip
    able = [server for server in registered if server.start is not None]
    if not able:
        return
    if not (yes or _agreed(able, context.root, as_json=as_json)):
        yield problem("servers-not-started", f"{counted(len(able), 'server')} not started to see whether they work",
                    "start them, and call nothing: adjourn doctor --yes", "warning")  # fmt: skip
        return
    check_person("doctor", context, attended=False)  # what is started is what settings of the workspace say
    with Spinner(f"starting {counted(len(able), 'server')} to list their tools"):
        answers = probe_all([server.start for server in able if server.start is not None])
    for server, answer in zip(able, answers, strict=True):
        yield from _tried(context, server, answer)


def _policy_is_broken(root: str) -> bool:
    try:
        read_contract(root)
    except AdjournError:
        return True
    return False


def _agreed(able: Sequence[RegisteredServer], root: str, *, as_json: bool) -> bool:
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    asked_starts = [
        AskedStart(server.entry, start, server.behind(root))
        for server in able
        if (start := server.own_start(root, os.environ))
    ]
    return agreed(asked_starts, root, "to see whether they work")


def _tried(context: CommandContext, server: RegisteredServer, answer: Probed) -> Iterator[Finding]:
    name, path = server.entry.name, server.entry.path
    if failure := server.failure(answer):
        yield problem("server-failed", f"server {name}: {failure}", f"run it by hand to see why: {server.entry.command}", source=path)  # fmt: skip
        return
    tools = [tool for tool in answer.tools if not meta_tool(tool.name)]
    if not server.is_proxied:
        yield problem("server-unproxied", f"server {name} is not behind the proxy: no policy holds for its tools in clients without hooks",
                    "put it behind the proxy: adjourn init", "warning", path)  # fmt: skip
        _keep(context, server, answer)
    elif not tools and (hidden := _hidden(context, name)):
        yield problem("server-refused", f"server {name}: the policy refuses all of its {counted(hidden, 'tool')}",
                    "permit those that the agent needs in the policy", "warning", path)  # fmt: skip
    elif not tools:
        yield problem("server-empty", f"server {name} lists no tools", "check its settings", "warning", path)


def _keep(context: CommandContext, server: RegisteredServer, answer: Probed) -> None:
    """Take in what a server lists. Of one behind the proxy, the proxy has done so."""
    with suppress(AdjournError):
        if (store := context.store_or_none()) is not None and getattr(store, "writable", True):
            keep_tools(store, server.entry.name, answer.known_tools, command=server.entry.command_digest)


def _hidden(context: CommandContext, server: str) -> int:
    """How many tools the server has that its list behind the proxy leaves out."""
    with suppress(AdjournError):
        if (store := context.store_or_none()) is not None:
            return len(known_tools(store).servers.get(server, ()))
    return 0


# --- hooks, and the program that they start


def hooks(context: CommandContext) -> Iterator[Finding]:
    """Run each registered hook with a request that it answers with nothing."""
    for path, start in hooks_to_try(context.root):
        try:
            done = subprocess.run(
                start.words, env=dict(start.environment), cwd=start.cwd, input=_HARMLESS, capture_output=True,
                timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            yield problem("hook-failed", f"the hook did not answer within {_SECONDS} seconds", "run `adjourn hook` by hand", source=path)  # fmt: skip
            continue
        except OSError as error:
            yield problem("hook-failed", f"the hook cannot be started: {error.strerror}", "write it again: adjourn init", source=path)  # fmt: skip
            continue
        if done.returncode:
            lines = "; ".join(last_lines(done.stderr, 3, 300))
            yield problem("hook-failed", f"the hook exited with code {done.returncode} (stderr: {lines})",
                        "correct its options, or write it again: adjourn init", source=path)  # fmt: skip


def program(context: CommandContext) -> Iterator[Finding]:
    """Whether clients that start `adjourn` by its name find this version."""
    path = find("adjourn", context.root)
    if path is None or is_beside_python(path):
        return
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        yield problem("other-program", f"{path} cannot be run", "install adjourn again, or take it off PATH")
        return
    version = "".join(last_lines(done.stdout, 1, 100)).rpartition(" ")[2]
    if version != __version__:
        yield problem("other-program", f"a client that starts `adjourn` finds version {version or 'unknown'} ({path}); this is {__version__}",
                    "install one version, or put this one first on PATH", "warning")  # fmt: skip


def clients(context: CommandContext) -> dict[str, str]:
    """The versions of the clients on PATH that adjourn registers hooks with, by the name of the program; "" if it does not say."""
    versions = {}
    for name in ("claude", "codex"):
        if (path := find(name, context.root)) is not None:
            try:
                done = subprocess.run([path, "--version"], capture_output=True, timeout=_SECONDS, check=False)
            except (OSError, subprocess.TimeoutExpired):
                versions[name] = ""
                continue
            version = _VERSION.search("".join(last_lines(done.stdout, 1, 200)))
            versions[name] = version[0] if version else ""
    return versions


# --- refusals


def refusals(context: CommandContext) -> Iterator[Finding]:
    """Whether most of what the newest task tried was refused because no rule allows it, and would be still."""
    try:
        store = context.store_or_none()
        if store is None or not (task := _newest(context)):
            return
        policy, tools = read_contract(context.root).policy, known_tools(store)
        head = store.head(task)
        with Spinner("reading the last calls"):
            events = [decode(entry.data) for entry in verified_entries_from(store, task, head.seq - _MAX_EVENTS, head)]
    except AdjournError:
        return  # other checks have said it
    calls = [kinds.data_of(fact) for event in events for fact in kinds.facts_of(event)]
    allowed = sum(isinstance(call, kinds.ToolAllowed) for call in calls)
    refused = Counter(
        tool_name(call)
        for call in calls
        if isinstance(call, kinds.ToolDenied)
        and call.reason == "not_allowed"
        and not policy.at_server(call.server, tools).visible(call.tool)
    )
    if refused.total() < max(MANY_REFUSED, allowed):
        return
    names = [name for name, _ in refused.most_common()]
    yield problem("many-refused", f"task {task}: {refused.total()} calls refused because no rule allows them: {_first(names)}",
                f"permit what the agent needs: edit the policy, as in: allow {names[0]}", "warning")  # fmt: skip


def _newest(context: CommandContext) -> str:
    """The task that was worked on last, of the first ones of each space; "" without any."""
    store = context.store
    if not is_complete(store):
        return max(tasks_of(store), key=lambda name: last_worked_on(store, name), default="")
    touched = {place.task: place.touched for place in places(store, NEWEST_OF)}
    return max(touched, key=lambda name: touched[name], default="")


# --- what `adjourn doctor --fix` fixes


def fix(context: CommandContext) -> Iterator[str]:
    """Fix what needs no decision, and print each fix."""
    for repair in (_ignored, _closed_keys, _lost_sessions, _moved):
        with suppress(AdjournError):  # the check that follows says it
            yield from repair(context)


def _ignored(context: CommandContext) -> Iterator[str]:
    folder, name = os.path.split(os.path.join(context.root, IGNORED))
    is_tracked = os.path.isdir(folder) and not os.path.islink(folder) and top_of(context.root)
    if is_tracked and create_file(folder, name, IGNORED_FILES.encode()):
        yield f"{IGNORED} was written: git ignores the history and the copies of settings"


def _closed_keys(context: CommandContext) -> Iterator[str]:
    del context
    for name, others in (("", 0o022), ("trusted", 0o022), ("default.key", 0o077), ("secret", 0o077)):
        path = os.path.join(keys.folder(), name).rstrip("/")
        with suppress(OSError):
            status = os.lstat(path)
            if status.st_mode & others and status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode):
                os.chmod(path, stat.S_IMODE(status.st_mode) & ~(0o077 if others == 0o077 else 0o022))
                yield f"{path} is closed to other users"


def _lost_sessions(context: CommandContext) -> Iterator[str]:
    if context.store_or_none() is None:
        return
    names = [name for name in waiting_heads(context.store, "") if "/" not in name]
    for name, task in task_view.each_task(context, names):
        if isinstance(task, AdjournError):
            continue
        holders = task_view.holders(context, task.ledger)
        if ended := [holder.session.id for holder in holders if not holder.alive and holder.session.pid]:
            expire_dead_sessions(context.writable(name))
            yield f"task {name}: marked as lost: {', '.join(ended)}"


def _moved(context: CommandContext) -> Iterator[str]:
    for change in moved_programs(context.root):
        undo.make([change], context.root)
        yield f"{os.path.relpath(change.path, context.root)}: {change.about[0]}"
