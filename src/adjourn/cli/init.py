"""`adjourn init`."""

from __future__ import annotations

import os
from importlib.util import find_spec

import click

from adjourn.aex import templates
from adjourn.aex.layers import discover
from adjourn.cli import annexes, clients
from adjourn.cli.context import example, flag, for_machines, in_folder, text_option
from adjourn.cli.output import safe, say, say_json
from adjourn.host.finding import top_of, workspace_of
from adjourn.host.workspace import create_file, make_folder
from adjourn.setup.places import SERVER_FILES
from adjourn.setup.servers import check_lasting


@click.command(
    epilog=example(
        "adjourn init",
        "adjourn init --diff",
        "adjourn init --observe --yes",
        "adjourn init --yes --no-start",
        "adjourn init --user",
        "adjourn init --undo",
        "adjourn init --policy",
        "adjourn init --task fix-test",
        "adjourn init --code",
    )
)
@flag("--policy", "Write .aex/policy.aex: what agents may do in this workspace.")
@text_option("--task NAME", "Write tasks/NAME.aex with sample inputs.")
@flag("--code", "Write the /code skill for Claude Code and Codex, and the prompts of its phases.")
@flag("--user", "Set up your own settings in the home folder, for every project.")
@flag("--undo", "Undo the set-up: restore every file as it was.")
@flag("--diff", "Show every change as a diff.")
@flag("--observe", "Write a policy that only records and refuses nothing yet.")
@flag("--here", "Set up the current folder, even inside another workspace.")
@flag("--yes, -y", "Start every server that settings here name, and change the files, without asking.")
@flag("--no-start", "Start no server, and do not ask; its tools are refused until rules name them.")
@in_folder
@for_machines
def init(
    *, policy: bool, task: str, code: bool, user: bool, undo: bool, observe: bool, here: bool, **asked: bool
) -> int:
    """Set up the clients of this workspace: their MCP servers behind the proxy, their hooks, a policy for their tools.

    Starts each server once to list its tools, and calls none. First it shows what each would run, and asks: a repository may name any
    program. Then it shows what changes, and asks. --yes agrees to both, and prints afterwards what was started and changed; in a
    repository that you do not trust, add --no-start. The policy allows tools that only read, asks a person about tools that write or
    that read from the network, and denies tools with destructive names. Files keep their layout and comments. Their content is saved
    under .aex/undo; --undo reverts the changes, also in files edited since. If a file cannot be parsed, nothing is changed.

    Run it again after you add or update a server: its new tools get rules. Tools that you removed from the policy get none.

    In a subfolder or linked work tree of a workspace, init sets up that workspace, with the settings of the folders in between, and
    prints its path. --here makes the current folder a workspace instead.

    --user changes the settings in your home folder instead, and starts no server. It governs every workspace; other folders work as
    before.

    --policy, --task and --code write only a first policy, a sample task or the /code skill. Existing files are never overwritten.
    `aex init` without options writes the sample task.

    Exit code 1 if you did not confirm, or a file is broken.
    """
    published = click.get_current_context().find_root().info_name == "aex"
    how = clients.Asked(**asked)
    start = os.path.realpath(os.curdir)
    if not (user or here or published):
        _go_to_workspace(as_json=how.as_json)
    if undo:
        return clients.take_back(how, user=user)
    if user or code or not (policy or task or published):
        check_lasting()
    if user:
        return clients.set_up_user(how)
    if not (policy or task or code or published):
        return clients.set_up(how, observe=observe, start=start)
    first = ""
    if policy and discover(".") is None:
        first = clients.policy_for(how, observe=observe)
    _write_first(first, policy=policy, task=task, code=code, as_json=how.as_json)
    if policy:
        clients.propose_pin(os.getcwd(), how)
    return 0


def _go_to_workspace(*, as_json: bool) -> None:
    """Work in the workspace that the current folder belongs to, and say where that is.

    Without one it is the top of the git repository, unless the current folder has settings of its own.
    """
    workspace = workspace_of()
    root = workspace.root if workspace.is_found else top_of(workspace.start) or workspace.start
    own = (*(file.path for file in SERVER_FILES), ".claude", ".codex")
    if root == workspace.start or (not workspace.is_found and any(map(os.path.lexists, own))):
        return
    os.chdir(root)
    if not as_json:
        say(f"workspace: {safe(root)} (for the current folder instead: --here)")


def _write_first(first: str, *, policy: bool, task: str, code: bool, as_json: bool) -> None:
    """A first policy, a sample task, the skill for coding sessions."""
    files, there = _first_files(first, policy=policy, task=task, code=code)
    written: list[str] = []
    for path, text in files.items():
        folder = make_folder(".", os.path.dirname(path))
        is_new = create_file(folder, os.path.basename(path), text.encode())
        (written if is_new else there).append(path)
    if as_json:
        say_json(written=written, skipped=there)
        return
    for path in written:
        say(f"written: {path}")
    for path in there:
        say(f"skipped: {path} already exists")
    _say_next_steps(written, there, code=code)


def _say_next_steps(written: list[str], there: list[str], *, code: bool) -> None:
    if ".aex/policy.aex" in written:
        say("  edit it, then see what it permits: adjourn policy explain")
    for path in written:
        if path.startswith("tasks/") and path.endswith(".aex"):
            say(f"  edit it, then see what it requests: adjourn policy review {path}")
    if code:
        if find_spec("tree_sitter") is None:
            say("  the server is not installed yet: pip install 'adjourn[code]'")
        say("  Claude Code: start it here and type /code; Codex: codex mcp add code-intel -- adjourn code")
    if code and ".mcp.json" in there:
        say('  add to .mcp.json: "code-intel": {"command": "adjourn", "args": ["code"]}')


def _first_files(first: str, *, policy: bool, task: str, code: bool) -> tuple[dict[str, str], list[str]]:
    """What to write, by path, and what is there already."""
    files: dict[str, str] = {}
    there: list[str] = []
    if policy:
        discovered = discover(".")
        if discovered is None:
            files[".aex/policy.aex"] = first
        else:
            there.append(os.path.normpath(discovered))
    if task or not (policy or code):
        name = templates.safe_name(task or "sample-task")
        files[f"tasks/{name}.aex"] = templates.sample_task(name)
        files[f"tasks/{name}.inputs.json"] = templates.SAMPLE_INPUTS
        files[f"tasks/{name}.policy.json"] = templates.SAMPLE_JSON_POLICY
    if code:
        files |= annexes.load("adjourn.files", "code")()
    return files, there
