"""`adjourn serve init`: settings of a gateway, and a policy from the tools that its servers list."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from pathlib import Path

from support.command_line import CommandLine
from support.gateway import SERVER
from support.ports import free_port
from support.servers import Servers


def workspace(tmp_path: Path) -> CommandLine:
    work = CommandLine(tmp_path / "work", tmp_path / "config")
    work.root.mkdir()
    return work


def command(tmp_path: Path, name: str) -> str:
    return shlex.join([sys.executable, str(SERVER), "0", str(tmp_path), name])


def settings(work: CommandLine) -> dict[str, object]:
    return tomllib.loads((work.root / "adjourn.toml").read_text("utf-8"))


def policy(work: CommandLine) -> str:
    return (work.root / ".aex" / "policy.aex").read_text("utf-8")


def test_it_writes_settings_and_a_policy_that_a_check_finds_ready(tmp_path: Path) -> None:
    """Of a server over HTTP and a command: tools that read are allowed, those that write are asked about; nothing is called."""
    servers = Servers(tmp_path).http("tracker")
    work = workspace(tmp_path)
    files = command(tmp_path, "files")
    with servers:
        listen = f"127.0.0.1:{free_port()}"
        done = work.ok(
            "serve", "init", f"tracker={servers.url('tracker')}", f"files={files}", "--listen", listen, "--yes"
        )
        checked = work.ok("serve", "--check")
    assert done.first == "set up: 2 servers"
    assert settings(work) == {
        "listen": listen,
        "servers": {"tracker": {"url": servers.url("tracker")}, "files": {"command": shlex.split(files)}},
    }
    assert checked.first == "ready: 2 of 2 servers can be used"
    rules = policy(work).splitlines()
    assert "allow tracker.echo" in rules
    assert "confirm before tracker.echo" not in rules
    assert {"allow tracker.write", "confirm before tracker.write"} <= set(rules)
    assert "allow file.read" not in policy(work)  # tools of a client's own do not pass a gateway
    assert not (tmp_path / "calls").exists()


def test_without_a_yes_nothing_is_written(tmp_path: Path) -> None:
    """Where nobody is asked; what would change is shown."""
    work = workspace(tmp_path)
    done = work.run("serve", "init", f"files={command(tmp_path, 'files')}")
    assert done.code == 1
    assert "adjourn.toml" in done.out
    assert not (work.root / "adjourn.toml").exists()
    assert not (work.root / ".aex" / "policy.aex").exists()


def test_a_further_server_is_added_and_what_a_person_wrote_stays(tmp_path: Path) -> None:
    """Settings keep their comments, the policy its rules; a server without rules gets some, also one that could not be reached before."""
    work = workspace(tmp_path)
    servers = Servers(tmp_path).http("tracker", started=False)
    with servers:
        first = work.ok("serve", "init", f"tracker={servers.url('tracker')}", "--yes")
        assert "no rules for tracker, it" in first.out
        assert "Its tools are not known" in policy(work)
        mine = (work.root / "adjourn.toml").read_text("utf-8") + "\n# mine\n[limits]\nclient_rate = 5\n"
        (work.root / "adjourn.toml").write_text(mine, encoding="utf-8")
        servers.start("tracker")
        done = work.ok("serve", "init", f"files={command(tmp_path, 'files')}", "--yes", "--json")
        again = work.ok("serve", "init", "--yes")
    data = json.loads(done.out)
    assert {Path(file["path"]).name for file in data["files"]} == {"adjourn.toml", "policy.aex"}
    text = (work.root / "adjourn.toml").read_text("utf-8")
    assert text.startswith(mine)
    assert set(tomllib.loads(text)["servers"]) == {"tracker", "files"}
    assert {"allow tracker.echo", "allow files.echo"} <= set(policy(work).splitlines())
    assert "Its tools are not known" not in policy(work)
    assert again.first == "nothing to change"


def test_an_address_for_other_machines_gets_a_way_to_authenticate(tmp_path: Path) -> None:
    """API keys, since a gateway without any does not start there."""
    work = workspace(tmp_path)
    work.ok("serve", "init", f"files={command(tmp_path, 'files')}", "--listen", "0.0.0.0:8080", "--yes")
    assert settings(work)["auth"] == {"keys": True}


def test_what_cannot_be_a_server_is_refused_before_any_is_started(tmp_path: Path) -> None:
    """No server at all, a name without a place, one that is there already, an address that is none."""
    work = workspace(tmp_path)
    for words, said in (
        ((), "no server is named"),
        (("tracker",), "NAME=URL"),
        (("a b=https://x.example/mcp",), "not a server's name"),
        (("a=https://x.example/mcp", "a=https://y.example/mcp"), "is there already"),
        (("a=",), "NAME=URL"),
        (("a='x",), "NAME=URL"),
        (("a=true", "--listen", "8080"), "listen is"),
    ):
        done = work.run("serve", "init", *words, "--yes")
        assert done.code in (1, 2), words
        assert said in done.err, (words, done.err)
    assert not (work.root / "adjourn.toml").exists()
