"""`adjourn doctor` starts what clients are set up with: servers behind the proxy, hooks, the adjourn on PATH."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adjourn import __version__
from support.proxy import ECHO, Done, ProxyWorkspace, adjourn, refused, run

OURS = [sys.executable, "-P", "-m", "adjourn"]


class Place(ProxyWorkspace):
    """A workspace whose settings list servers."""

    def list_servers(self, **commands: list[str]) -> None:
        listed = {name: {"command": words[0], "args": words[1:]} for name, words in commands.items()}
        (self.root / ".mcp.json").write_text(json.dumps({"mcpServers": listed}))

    def hook(self, *options: str) -> None:
        (self.root / ".claude").mkdir(exist_ok=True)
        handler = {"type": "command", "command": " ".join([*OURS, "hook", *options])}
        entry = [{"matcher": "*", "hooks": [handler]}]
        (self.root / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": entry}}))

    def behind(self, *words: str, name: str = "inv") -> list[str]:
        return [*OURS, "proxy", "--name", name, "--", *words]

    def echo(self) -> list[str]:
        return [sys.executable, "-I", "-S", str(ECHO), str(self.upstream)]

    def doctor(self, *words: str) -> dict[str, Any]:
        done = adjourn(self, "doctor", "--json", *words)
        told: dict[str, Any] = done.json
        assert done.code == (0 if told["healthy"] else 1)
        return {one["code"]: one for one in told["findings"]} | {"fixed": told.get("fixed")}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path, "allow echo", "budget calls=5") as place:
        yield place


def test_a_server_that_works_is_no_finding_and_nothing_is_called(place: Place) -> None:
    """Through the proxy that is registered; its tools are known afterwards, and no session began."""
    place.list_servers(inv=place.behind(*place.echo()))
    found = place.doctor("--yes")
    assert not {"server-failed", "server-empty", "server-refused", "servers-not-started"} & set(found)
    assert place.executed() == []
    assert place.tasks() == []
    with place.store() as store:
        assert '"echo"' in (store.ref("tools/inv") or "")


@pytest.mark.parametrize("behind", [True, False])
def test_a_server_that_fails_is_an_error_with_its_last_words(place: Place, behind: bool) -> None:
    """Exit code and stderr, behind the proxy and without it."""
    words = [sys.executable, "-c", "import sys; sys.exit('no config')"]
    place.list_servers(inv=place.behind(*words) if behind else words)
    found = place.doctor("--yes")["server-failed"]
    assert found["severity"] == "error"
    assert found["message"] == "server inv: the MCP server exited with code 1 (stderr: no config)"
    assert found["source"] == ".mcp.json"


def test_nothing_is_started_that_nobody_agreed_to(place: Place) -> None:
    """A repository may name any command: without a terminal and without --yes, doctor says that it started none."""
    place.list_servers(inv=[sys.executable, "-c", f"open({str(place.root / 'started')!r}, 'w')"])
    found = place.doctor()
    assert "adjourn doctor --yes" in found["servers-not-started"]["help"]
    assert not (place.root / "started").exists()


def test_servers_of_the_home_folder_are_tried(place: Place, tmp_path: Path) -> None:
    """Those that a set-up for every project put behind the proxy are started here, too, if their client starts them here."""
    home = tmp_path / "home"
    home.mkdir()
    words = place.behind(sys.executable, "-c", "raise SystemExit('no database')")
    for path in (".claude.json", ".cursor/mcp.json"):
        (home / path).parent.mkdir(exist_ok=True)
        (home / path).write_text(json.dumps({"mcpServers": {"inv": {"command": words[0], "args": words[1:]}}}))
    env = place.environment | {"HOME": str(home)}
    findings = run("doctor", "--yes", "--json", cwd=place.root, env=env).json["findings"]
    [failed] = [one for one in findings if one["code"] == "server-failed"]
    assert (failed["source"], "no database" in failed["message"]) == ("~/.claude.json", True)


def test_the_versions_of_clients_are_shown(place: Place, tmp_path: Path) -> None:
    """Of programs on PATH, and of none in the workspace; one that does not answer with a version is named all the same."""
    for folder, name, said in (
        (tmp_path / "bin", "claude", "2.1.330 (Claude Code)"),
        (place.root, "codex", "codex 9.9"),
    ):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\necho '{said}'\n")
        (folder / name).chmod(0o755)
    env = place.environment | {"PATH": f"{place.root}:{tmp_path / 'bin'}:/usr/bin:/bin"}
    done = run("doctor", "--json", cwd=place.root, env=env)
    assert done.json["clients"] == {"claude": "2.1.330"}
    assert f"clients: claude 2.1.330; adjourn {__version__}" in run("doctor", cwd=place.root, env=env).out


def test_a_policy_that_refuses_all_tools_of_a_server_is_told(place: Place) -> None:
    """The server works, and its list is empty for the agent."""
    place.write_policy("deny inv.*")
    place.list_servers(inv=place.behind(*place.echo()))
    assert "the policy refuses all of its" in place.doctor("--yes")["server-refused"]["message"]


def test_a_server_that_no_rule_names_is_told(place: Place) -> None:
    """One finding says that its tools are refused, and what proposes rules for them."""
    place.write_policy("allow nothing.here")
    place.list_servers(inv=place.behind(*place.echo()))
    found = place.doctor("--yes")
    assert "no rule names a tool of server inv" in found["server-without-rules"]["message"]
    assert "adjourn init" in found["server-without-rules"]["help"]
    assert "server-refused" not in found


def test_a_hook_that_cannot_run_is_an_error(place: Place) -> None:
    """A registered hook is fed a request that does nothing; an option that it does not have stops it."""
    place.hook("--settle", "--stay")
    assert "hook-failed" not in place.doctor()
    place.hook("--no-such-option")
    found = place.doctor()["hook-failed"]
    assert "--no-such-option" in found["message"]
    assert found["severity"] == "error"
    assert not place.tasks_exist()


def test_a_session_full_of_refusals_is_told(place: Place) -> None:
    """By the names of the tools, until the policy permits them."""
    client = place.client()
    for tool in ("drop", "drop", "remove", "drop", "wipe", "drop"):
        assert refused(client.call(tool, {}))
    client.kill()
    message = place.doctor()["many-refused"]["message"]
    assert message.endswith(": 6 calls refused because no rule allows them: echo.drop, echo.remove, echo.wipe")
    place.write_policy("allow *")
    assert "many-refused" not in place.doctor()


def test_fix_mends_what_is_safe_and_says_so(place: Place) -> None:
    """The line for git, open keys, sessions that ended, the path of an adjourn that was moved; a second run has nothing to mend."""
    subprocess.run(["git", "init", "-q"], cwd=place.root, check=True)
    client = place.client()
    assert not refused(client.call("echo", {"a": 1}))
    client.process.kill()
    client.process.wait()
    (place.config / "keys" / "secret").chmod(0o644)
    place.list_servers(inv=["/gone/bin/adjourn", "proxy", "--name", "inv", "--", *place.echo()])
    before = place.doctor()
    assert {"stale-session", "store-not-ignored", "keys-open", "client-program"} <= set(before)
    after = place.doctor("--fix")
    assert not {"stale-session", "store-not-ignored", "keys-open"} & set(after)
    told = "\n".join(after["fixed"])
    for word in (".aex/.gitignore was written", "secret is closed", "marked as lost"):
        assert word in told
    assert place.doctor("--fix")["fixed"] == []


def test_what_is_wrong_is_printed_with_the_remedy(place: Place) -> None:
    """For people, in one list."""
    place.list_servers(inv=[sys.executable, "-c", "raise SystemExit(3)"])
    done: Done = adjourn(place, "doctor", "--yes")
    assert done.code == 1
    assert "error server-failed · .mcp.json · server inv: the MCP server exited with code 3\n" in done.out


def test_a_broken_policy_is_not_blamed_on_the_servers(place: Place) -> None:
    """No proxy starts under it, so doctor starts the servers directly, and one that fails is still an error."""
    failing = [sys.executable, "-c", "import sys; sys.exit('no config')"]
    place.list_servers(inv=place.behind(*place.echo()), bad=place.behind(*failing, name="bad"))
    (place.root / ".aex" / "policy.aex").write_text("policy p v0\nalow echo\n")
    told = adjourn(place, "doctor", "--json", "--yes").json["findings"]
    failed = [finding["message"] for finding in told if finding["code"] == "server-failed"]
    assert failed == ["server bad: the MCP server exited with code 1 (stderr: no config)"]
    assert any(finding["code"].startswith("AEX") for finding in told)


def test_no_policy_is_an_error_where_something_needs_one(place: Place) -> None:
    """A registered proxy does not start and a registered hook refuses every call; the finding names both."""
    place.list_servers(inv=place.behind(*place.echo()))
    place.hook()
    (place.root / ".aex" / "policy.aex").unlink()
    found = place.doctor()["no-policy"]
    assert found["severity"] == "error"
    assert "(here: server inv, .claude/settings.json)" in found["message"]
    place.hook("--allow-no-policy")
    (place.root / ".mcp.json").unlink()
    assert place.doctor()["no-policy"]["severity"] == "warning"
