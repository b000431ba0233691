"""`adjourn init`: clients found, changed after an approval, and restored byte for byte; `adjourn doctor` on the outcome of it."""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import stat
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from adjourn.clients.options import parse_hook
from support.home import BIN, Home

MCP = """\
{
  "mcpServers": {
    // reads and writes
    "files": {"command": "mcp-files", "args": ["-y", "files"], "env": {"A": "b"}},
    "web": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
  },
}
"""
CODEX = '[mcp_servers.clock]\ncommand = "no-uvx"\nargs = ["clock"]\nenv = { TZ = "UTC" }\n'
EVENTS = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "Stop",
    "SubagentStop",
    "SessionEnd",
]


@pytest.fixture
def at(tmp_path: Path) -> Home:
    at = Home(tmp_path)
    (at.home / ".claude").mkdir()
    at.write(".mcp.json", MCP)
    return at


def hooks_of(at: Home, path: str = ".claude/settings.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((at.root / path).read_text())["hooks"]
    return found


def test_nothing_is_changed_without_a_yes(at: Home) -> None:
    """The change is shown as a diff; without a terminal to ask on, the answer is no, and the exit code says so."""
    before = at.files()
    done = at.run("init", "--diff")
    assert done.code == 1
    assert done.out.startswith("Claude Code: 4 files to change\n")
    assert '-    "files": {"command": "mcp-files", "args": ["-y", "files"], "env": {"A": "b"}},' in done.out
    assert (
        '+    "files": {"command": "adjourn", "args": ["proxy", "--name", "files", "--", "mcp-files", "-y", "files"], "env": {"A": "b"}},'
        in done.out
    )
    assert "you did not confirm" in done.err
    assert at.files() == before


@pytest.mark.extra("gateway")
def test_servers_go_behind_the_proxy_and_hooks_are_registered(at: Home) -> None:
    """Comments and layout stay; a server over HTTP is reached by its proxy; a first policy is there."""
    done = at.run("init", "--yes")
    assert (done.code, done.err) == (0, "")
    changed = MCP.replace(
        '"command": "mcp-files", "args": ["-y"',
        '"command": "adjourn", "args": ["proxy", "--name", "files", "--", "mcp-files", "-y"',
    ).replace(
        '"http", "url": "http://127.0.0.1:9/mcp"',
        '"stdio", "command": "adjourn", "args": ["proxy", "--name", "web", "--url", "http://127.0.0.1:9/mcp"]',
    )
    assert (at.root / ".mcp.json").read_text() == changed
    hooks = hooks_of(at)
    assert list(hooks) == EVENTS
    for event, [group] in hooks.items():
        [hook] = group["hooks"]
        assert hook["command"] == "adjourn hook --settle --stay --proxied files,web"
        assert ("onFailure" in hook) == (event == "PreToolUse")
        parse_hook(shlex.split(hook["command"])[2:])
    assert (at.root / ".aex" / "policy.aex").exists()
    assert "web (http://127.0.0.1:9): no tools" in done.out


def test_a_second_time_changes_nothing(at: Home) -> None:
    """An earlier set-up is recognized and reported."""
    at.write("~/.codex/config.toml", CODEX)
    at.run("init", "--yes")
    before = at.files()
    again = at.run("init", "--yes")
    assert (again.code, again.out.splitlines()[0]) == (0, "nothing to change: Claude Code, Codex are set up")
    assert at.files() == before


def test_undo_restores_every_file_byte_for_byte(at: Home) -> None:
    """After two runs, with what was added between them: all as it was, what was not there is gone, folders too."""
    at.write(".claude/settings.json", '{"model": "x",   "hooks": {"Stop": []}}')
    at.write("~/.claude.json", '{"projects": {}}', 0o600)
    at.write("~/.codex/config.toml", CODEX)
    before = at.files()
    at.run("init", "--yes")
    at.write(".vscode/mcp.json", '{"servers": {"git": {"command": "no-uvx"}}}')
    assert at.run("init", "--yes").code == 0
    assert '"adjourn"' in (at.root / ".vscode/mcp.json").read_text()
    undone = at.run("init", "--undo", "--yes")
    assert (undone.code, undone.err) == (0, "")
    assert (at.root / ".vscode/mcp.json").read_text() == '{"servers": {"git": {"command": "no-uvx"}}}'
    shutil.rmtree(at.root / ".vscode")
    assert at.files() == before
    assert not (at.root / ".aex").exists()
    assert not (at.root / ".codex").exists()
    assert at.run("init", "--undo", "--yes").code == 1


def test_undo_asks_and_leaves_alone_what_was_changed_since(at: Home) -> None:
    """Somebody's work since is not thrown away: what was edited stays, and is named; the rest of the change is taken back."""
    at.run("init", "--yes")
    (at.root / ".aex" / "policy.aex").write_text("policy mine v0\n")
    settings = at.root / ".claude" / "settings.json"
    edited = json.loads(settings.read_text()) | {"model": "x"}
    edited["hooks"]["Stop"][0]["hooks"][0]["timeout"] = 7
    settings.write_text(json.dumps(edited))
    assert at.run("init", "--undo").code == 1
    assert '"adjourn"' in (at.root / ".mcp.json").read_text()
    undone = at.run("init", "--undo", "--yes")
    assert undone.code == 1
    assert (at.root / ".mcp.json").read_text() == MCP
    assert ".claude/settings.json: edited since, and not restored: hooks.Stop" in undone.out
    assert json.loads(settings.read_text()) == {"model": "x", "hooks": {"Stop": edited["hooks"]["Stop"]}}
    assert (at.root / ".aex" / "policy.aex").read_text() == "policy mine v0\n"
    settings.unlink()
    assert at.run("init", "--undo", "--yes").code == 0


def test_undo_takes_its_change_out_of_files_that_were_edited_since(at: Home) -> None:
    """What a person or a client added to a file stays, and the file is otherwise as it was."""
    at.write("~/.claude.json", '{"mcpServers": {"s": {"command": "no-s"}}}', 0o600)
    codex = at.write(".codex/config.toml", CODEX)
    at.run("init", "--yes")
    home = at.home / ".claude.json"
    home.write_text(json.dumps(json.loads(home.read_text()) | {"numStartups": 3}, indent=4))
    codex.write_text("# new\n\n" + codex.read_text() + "\n[tui]\nx = 1\n")
    settings = at.root / ".claude" / "settings.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"model": "x"}))
    undone = at.run("init", "--undo", "--yes")
    assert (undone.code, undone.err) == (0, "")
    assert json.loads(home.read_text()) == {"mcpServers": {"s": {"command": "no-s"}}, "numStartups": 3}
    assert codex.read_text() == "# new\n\n" + CODEX + "\n[tui]\nx = 1\n"
    assert json.loads(settings.read_text()) == {"model": "x"}


def test_settings_that_cannot_be_parsed_are_an_error(at: Home) -> None:
    """Nothing is written; the file, the line and the remedy are named, for each of them."""
    at.write(".cursor/mcp.json", '{\n "mcpServers": ')
    at.write(".codex/config.toml", "[mcp_servers.x]\ncommand =\n")
    before = at.files()
    done = at.run("init", "--yes")
    assert (done.code, done.out) == (1, "")
    assert ".cursor/mcp.json: line 2: a JSON value is missing\n  fix its JSON" in done.err
    assert ".codex/config.toml: Invalid value (at line 2, column 10)\n  fix its TOML" in done.err
    assert at.files() == before
    found = at.run("doctor", "--json").json["findings"]
    assert [one["severity"] for one in found if one["code"] == "client-broken"] == ["error", "error"]


def test_settings_that_are_not_utf_8_are_an_error(at: Home) -> None:
    """They are broken, as those that cannot be parsed are: nothing is changed, and no policy is written."""
    (at.root / ".mcp.json").write_bytes(b'{"mcpServers": {"caf\xe9": {"command": "x"}}}')
    done = at.run("init", "--yes")
    assert (done.code, "it is not UTF-8" in done.err, "nothing was changed" in done.err) == (1, True, True), done
    assert not (at.root / ".aex").exists()


def test_undo_restores_nothing_outside_its_table(at: Home, tmp_path: Path) -> None:
    """An agent can write in .aex/undo: a manifest that names another file is refused whole."""
    at.run("init", "--yes")
    manifest = at.root / ".aex" / "undo" / "1" / "manifest.json"
    body = json.loads(manifest.read_text())
    other = tmp_path / "other"
    other.write_text("x")
    body["files"][0]["path"] = str(other)
    manifest.write_text(json.dumps(body))
    done = at.run("init", "--undo", "--yes")
    assert done.code == 1
    assert "another user wrote it" in done.err
    assert other.read_text() == "x"


def test_copies_are_private_and_no_part_of_the_repository(at: Home) -> None:
    """A client's file may hold secrets: only its owner reads the copy, git ignores it, and permissions are kept."""
    at.write("~/.claude.json", '{"mcpServers": {"s": {"command": "x", "env": {"KEY": "secret"}}}}', 0o600)
    assert at.run("init", "--yes").code == 0
    assert stat.S_IMODE((at.home / ".claude.json").stat().st_mode) == 0o600
    undo = at.root / ".aex" / "undo"
    assert stat.S_IMODE(undo.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in undo.rglob("*") if path.is_file()} == {0o600}
    assert (undo / ".gitignore").read_text() == "*\n"


@pytest.mark.extra("gateway")
def test_servers_of_the_home_get_an_entry_of_this_workspace_alone(at: Home) -> None:
    """Other projects have no policy: what the home lists for all of them stays, and is shadowed here."""
    at.write(
        "~/.claude.json",
        json.dumps({"mcpServers": {"notes": {"command": "mcp-files", "args": ["n"], "env": {"K": "v"}}}}),
    )
    at.write("~/.codex/config.toml", CODEX)
    at.write("~/.cursor/mcp.json", '{"mcpServers": {"far": {"command": "x"}}}')
    done = at.run("init", "--yes")
    assert done.code == 0
    claude = json.loads((at.home / ".claude.json").read_text())
    assert claude["mcpServers"]["notes"]["command"] == "mcp-files"
    own = claude["projects"][str(at.root)]["mcpServers"]["notes"]
    assert own == {
        "command": "adjourn",
        "args": ["proxy", "--name", "notes", "--", "mcp-files", "n"],
        "env": {"K": "v"},
    }
    assert (at.home / ".codex/config.toml").read_text() == CODEX
    assert '[mcp_servers.clock]\ncommand = "adjourn"' in (at.root / ".codex/config.toml").read_text()
    assert hooks_of(at)["Stop"][0]["hooks"][0]["command"].endswith("--proxied files,notes,web")
    codex = hooks_of(at, ".codex/hooks.json")
    assert codex["SessionEnd"][0]["hooks"][0] == {
        "type": "command", "command": "adjourn hook --client codex --settle --stay --proxied clock", "timeout": 3,
    }  # fmt: skip
    assert "server far of Cursor is left alone: it is for every project" in done.out
    assert "does not trust this folder yet" in done.out


def test_gemini_cli_gets_its_session_hook_and_loses_it_again(at: Home) -> None:
    """Beside settings of its own, with its name and milliseconds; the doctor misses it where it is gone, and `--undo` removes it."""
    own = at.write(".gemini/settings.json", '{"ui":   {"theme": "x"}}')
    done = at.run("init", "--yes")
    assert done.code == 0
    assert "Gemini CLI reads nothing of .gemini in a folder that it does not trust" in done.out
    [group] = hooks_of(at, ".gemini/settings.json")["SessionStart"]
    command = "adjourn hook --client gemini --proxied ''"
    assert group == {"hooks": [{"type": "command", "command": command, "timeout": 30_000, "name": "adjourn"}]}
    parse_hook(shlex.split(command)[2:])
    at.write("~/.gemini/trustedFolders.json", json.dumps({str(at.root.parent): "TRUST_FOLDER"}))
    again = at.run("init", "--yes").out
    assert again.startswith("nothing to change")
    assert "does not trust" not in again
    written = own.read_text()
    own.write_text("{}")
    assert "not set up: hook for SessionStart" in at.run("doctor").out
    own.write_text(written)
    assert at.run("init", "--undo", "--yes").code == 0
    assert own.read_text() == '{"ui":   {"theme": "x"}}'


@pytest.mark.extra("gateway")
def test_hooks_of_others_and_options_of_one_s_own_stay(at: Home) -> None:
    """Our hook is registered once an event, beside what is there; what somebody gave it is kept."""
    mine = {"matcher": "Bash", "hooks": [{"type": "command", "command": "lint.sh"}]}
    ours: dict[str, Any] = {
        "matcher": "*",
        "hooks": [{"type": "command", "command": "adjourn hook --policy strict.aex --proxied=old", "timeout": 9}],
    }
    at.write(".claude/settings.json", json.dumps({"hooks": {"PreToolUse": [mine, ours], "Stop": [mine]}}))
    at.run("init", "--yes")
    hooks = hooks_of(at)
    assert hooks["PreToolUse"] == [
        mine, {"matcher": "*", "hooks": [ours["hooks"][0] | {"command": "adjourn hook --settle --proxied files,old,web --policy strict.aex"}]},
    ]  # fmt: skip
    assert hooks["Stop"][0] == mine
    assert len(hooks["Stop"]) == 2


def test_codex_hands_the_proxy_what_its_hooks_see(at: Home) -> None:
    """Both must find the same keys and the same store: what the user's entry names already is named once, what it sets stays."""
    at.write(
        "~/.codex/config.toml",
        '[mcp_servers.a]\ncommand = "x"\nenv_vars = ["TOKEN", "ADJOURN_STORE"]\n\n'
        '[mcp_servers.b]\ncommand = "x"\nenv = { ADJOURN_TASK = "t1" }\n\n'
        '[mcp_servers.c]\ncommand = "x"\nenv_vars = [{ name = "TOKEN", source = "remote" }]\n',
    )
    assert at.run("init", "--yes").code == 0
    made = tomllib.loads((at.root / ".codex/config.toml").read_text())["mcp_servers"]
    assert made["a"]["env_vars"] == ["TOKEN", "ADJOURN_STORE", "ADJOURN_CONFIG", "ADJOURN_TASK", "XDG_CONFIG_HOME"]
    assert made["b"]["env_vars"] == ["ADJOURN_CONFIG", "ADJOURN_STORE", "XDG_CONFIG_HOME"]
    assert made["c"] == {"command": "adjourn", "args": ["proxy", "--name", "c", "--", "x"]}


def test_a_proxy_of_codex_that_sees_too_little_is_found_and_mended(at: Home) -> None:
    """One that was set up by hand lacks what leads it to the keys: doctor says so, and init adds it."""
    at.write(".codex/config.toml", '[mcp_servers.a]\ncommand = "adjourn"\nargs = ["proxy", "--", "x"]\n')
    found = json.loads(at.run("doctor", "--json").out)["findings"]
    assert "not set up: server a sees its keys and its store, server a has its name in policies" in [
        one["message"] for one in found
    ]
    assert at.run("init", "--yes").code == 0
    made = tomllib.loads((at.root / ".codex/config.toml").read_text())["mcp_servers"]["a"]
    assert made == {
        "command": "adjourn",
        "args": ["proxy", "--name", "a", "--", "x"],
        "env_vars": ["ADJOURN_CONFIG", "ADJOURN_STORE", "ADJOURN_TASK", "XDG_CONFIG_HOME"],
    }


def test_a_server_in_dotted_keys_is_put_behind_the_proxy(at: Home) -> None:
    """TOML is edited in the spelling that it has: a server of dotted keys gets its values beside them."""
    path = at.write(".codex/config.toml", 'mcp_servers.x.command = "a" # mine\n')
    assert at.run("init", "--yes").code == 0
    assert path.read_text().startswith("mcp_servers.x.command = ")
    assert " # mine\nmcp_servers.x.env_vars = [" in path.read_text()


def test_what_is_not_understood_is_left_alone_and_named(at: Home) -> None:
    """An odd shape, a link: not one byte changes, and the reason is said."""
    odd = at.write(".kiro/settings/mcp.json", '{"mcpServers": {"x": {"command": ["a", "b"]}, "y": 5}}')
    real = at.write("real.json", '{"servers": {"g": {"command": "x"}}}')
    (at.root / ".vscode").mkdir()
    (at.root / ".vscode" / "mcp.json").symlink_to(real)
    away = at.root.parent / "away"
    away.mkdir()
    (away / "mcp.json").write_text('{"mcpServers": {"g": {"command": "x"}}}')
    (at.root / ".roo").symlink_to(away)
    before = at.files()
    assert at.run("init", "--yes").code == 0
    for path in (odd, real, away / "mcp.json"):
        assert before.get(str(path), (path.read_bytes(), 0))[0] == path.read_bytes()
    notes = at.notes()
    for part in ("server x is not put behind", "server y is not put", "is a link"):
        assert part in notes
    assert "mcp.json" in notes


def test_a_linked_settings_folder_is_refused(at: Home) -> None:
    """Hooks are not written through a link either."""
    away = at.root.parent / "away"
    away.mkdir()
    (at.root / ".claude").symlink_to(away)
    done = at.run("init", "--yes")
    assert done.code == 0
    assert list(away.iterdir()) == []
    assert "follows no link" in done.out


def test_a_file_changed_between_showing_and_writing_is_not_written_over(at: Home, tmp_path: Path) -> None:
    """The yes was for what was shown."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "adjourn", "init"],
        cwd=at.root,
        env=at.environment,
        stdin=other,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    for question, answer in ((b"Start them?", b"n\n"), (b"Change these files?", b"")):
        seen = b""
        end = time.monotonic() + 30
        while question not in seen and time.monotonic() < end:
            seen += os.read(process.stdout.fileno(), 65536)
        os.write(main, answer)
    (at.root / ".mcp.json").write_text("{}")
    os.write(main, b"y\n")
    out, err = process.communicate(timeout=30)
    os.close(main)
    os.close(other)
    assert process.returncode == 1, (out, err)
    assert b"changed while it was edited" in err
    assert (at.root / ".mcp.json").read_text() == "{}"
    assert not (at.root / ".claude").exists()
    assert not (at.root / ".aex" / "policy.aex").exists()


def test_where_adjourn_is_not_on_the_path_the_interpreter_is_named(at: Home) -> None:
    """A client that cannot find the program could start nothing."""
    assert at.run("init", "--yes", PATH="/usr/bin:/bin").code == 0
    args = json.loads((at.root / ".claude/settings.json").read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    assert args.startswith(f"{sys.executable} -P -m adjourn hook ")
    assert at.run("init", "--yes", PATH="/usr/bin:/bin").out.startswith("nothing to change")


def test_aex_init_is_as_it_was_published(at: Home) -> None:
    """Without options it writes a sample task, and touches no client."""
    done = subprocess.run(
        [f"{BIN}/aex", "init"], cwd=at.root, env=at.environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert "tasks/sample-task.aex" in done.stdout
    assert (at.root / ".mcp.json").read_text() == MCP


# --- doctor


def doctor(at: Home, **env: str) -> list[str]:
    return [
        found["code"]
        for found in at.run("doctor", "--json", **env).json["findings"]
        if found["code"].startswith("client")
    ]


@pytest.mark.extra("gateway")
def test_doctor_checks_the_whole_set_up(at: Home) -> None:
    """Not set up, well set up, half taken out, a program that is not there, hooks switched off: each has its finding."""
    assert doctor(at) == ["client-not-set-up"]
    at.run("init", "--yes")
    assert doctor(at) == []
    policy = at.root / ".aex" / "policy.aex"
    written = policy.read_text()
    policy.write_text(written.replace("tools.search, ", ""))
    assert doctor(at) == ["client-search"]
    policy.write_text(written)
    settings = at.root / ".claude" / "settings.json"
    document = json.loads(settings.read_text())
    del document["hooks"]["PostToolUse"]
    settings.write_text(json.dumps(document | {"disableAllHooks": True}))
    assert doctor(at) == ["client-incomplete", "client"]
    assert "client-program" in doctor(at, PATH="/usr/bin:/bin")
    assert at.run("doctor", PATH="/usr/bin:/bin").code == 1


def test_what_codex_does_not_trust_yet_is_a_finding(at: Home) -> None:
    """First the folder, then the hooks; once both are trusted there is nothing to say."""
    (at.root / ".mcp.json").unlink()
    at.write("~/.codex/config.toml", CODEX)
    at.run("init", "--yes")
    said = []
    trust = f'\n[projects."{at.root}"]\ntrust_level = "trusted"\n'
    hooks = f'\n[hooks.state."{at.root}/.codex/hooks.json:stop:0:0"]\ntrusted_hash = "sha256:00"\n'
    for text in (CODEX, CODEX + trust, CODEX + trust + hooks):
        at.write("~/.codex/config.toml", text)
        said.append([one["message"] for one in at.run("doctor", "--json").json["findings"] if one["code"] == "client"])
    assert [len(one) for one in said] == [1, 1, 0]
    assert "does not trust this folder" in said[0][0]
    assert "silently skips these hooks" in said[1][0]


def test_a_workspace_without_clients_is_none_of_its_business(tmp_path: Path) -> None:
    """No client, no finding; and nothing to set up but a policy. What was looked for is said, and what to do without."""
    at = Home(tmp_path)
    assert doctor(at) == []
    for _ in range(2):
        said = at.run("init", "--yes").out
        assert said.startswith("no client was found here\n")
        assert ".mcp.json, .codex/config.toml" in said
        assert "put `adjourn proxy --` before the command" in said


def test_folders_that_were_there_stay(tmp_path: Path) -> None:
    """Taking back removes the folders that were made, not the empty ones that somebody else had made."""
    at = Home(tmp_path)
    at.write("~/.codex/config.toml", CODEX)
    (at.root / ".claude").mkdir()
    at.run("init", "--yes")
    assert {".aex", ".claude", ".codex"} == {path.name for path in at.root.iterdir()}
    assert at.run("init", "--undo", "--yes").code == 0
    assert [path.name for path in at.root.rglob("*")] == [".claude"]


def test_the_server_for_code_and_a_policy_that_does_not_know_it(tmp_path: Path) -> None:
    """Alone it needs no set-up. Behind the proxy, doctor names the tools that the policy has to permit, until it does."""
    at = Home(tmp_path)

    def refused() -> list[dict[str, str]]:
        found = at.run("doctor", "--json").json["findings"]
        return [one for one in found if one["code"] in ("code-refused", "client-not-set-up")]

    at.run("init", "--code")
    assert refused() == []
    at.run("init", "--yes")
    (found,) = refused()
    assert found["message"] == "the policy refuses 21 of 21 tools of `adjourn code`"
    line = found["help"].removeprefix("permit them: ")
    policy = at.root / ".aex" / "policy.aex"
    policy.write_text(policy.read_text().replace("budget", f"{line}\nbudget"))
    assert refused() == []
