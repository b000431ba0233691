"""`adjourn serve --check`: what of a gateway could be used, before it is started."""

from __future__ import annotations

import json
from pathlib import Path

from support.command_line import CommandLine
from support.ports import free_port
from support.servers import Servers

SETTINGS = 'listen = "127.0.0.1:{port}"\n'


def workspace(tmp_path: Path, settings: str, *rules: str) -> CommandLine:
    work = CommandLine(tmp_path / "work", tmp_path / "config")
    (work.root / ".aex").mkdir(parents=True)
    (work.root / ".aex" / "policy.aex").write_text("\n".join(("policy shop v1", *rules, "")), encoding="utf-8")
    (work.root / "adjourn.toml").write_text(SETTINGS.format(port=free_port()) + settings, encoding="utf-8")
    return work


def test_it_counts_the_tools_that_the_policy_allows(tmp_path: Path) -> None:
    """Over HTTP and pipes; for a part of the principals, too. Nothing is called, and no store is made."""
    servers = Servers(tmp_path).http("tracker").pipe("files")
    work = workspace(tmp_path, servers.toml, "allow tracker.echo", "", "for group:ops", "  allow files.*")
    with servers:
        done = work.ok("serve", "--check")
        data = json.loads(work.ok("serve", "--check", "--json").out)
    assert done.first == "ready: 2 of 2 servers can be used"
    tools = {server["name"]: server["tools"] for server in data["servers"]}
    assert data["ready"]
    assert f"tracker: 1 of {tools['tracker']} tools allowed\n" in done.out
    assert f"files: {tools['files']} of {tools['files']} tools allowed, {tools['files']} of them to some" in done.out
    assert not (tmp_path / "calls").exists()
    assert not work.database.exists()


def test_what_cannot_be_used_is_named_and_the_exit_code_says_so(tmp_path: Path) -> None:
    """A server none of whose tools is allowed, one that does not answer, a variable without a value, a store that is away."""
    servers = Servers(tmp_path).pipe("tracker")
    more = f"""
[servers.away]
url = "http://127.0.0.1:{free_port()}/mcp"
[servers.keyed]
url = "http://127.0.0.1:9/mcp"
bearer_env = "NO_SUCH_VARIABLE_HERE"
[servers.gone]
command = ["no-such-program-here"]
"""
    work = workspace(tmp_path, servers.toml + more, "allow tracker.nothing")
    done = work.run("serve", "--check", "--store", f"postgresql://a@127.0.0.1:{free_port()}/none")
    assert done.code == 1
    assert done.first == "NOT READY: 0 of 4 servers can be used, the store cannot be used"
    assert "tracker: 0 of " in done.out
    for name, why in (("away", ""), ("keyed", "NO_SUCH_VARIABLE_HERE"), ("gone", "not on PATH")):
        (line,) = [line for line in done.out.splitlines() if line.startswith(f"  {name}: ")]
        assert why in line
    assert work.run("serve", "--json").code == 2
