"""What doctor names in client settings of the workspace that makes adjourn hold less than the policy says."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from adjourn.clients.options import options_of
from adjourn.setup import checks
from adjourn.setup.checks import findings
from adjourn.setup.places import home

PLAIN = {
    "--brief-bytes",
    "--client",
    "--contract",
    "--log-json",
    "--meta-tools",
    "--name",
    "--no-budget-notice",
    "--proxied",
    "--no-prompt",
    "--no-transcripts",
    "--settle",
    "--stay",
    "--tool-names",
    "--upstream",
    "--url",
    "--bearer-env",
    "--header-env",
}
"""Options that make nothing weaker."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("home", "work/.aex", "work/.claude", "work/.codex"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "work/.aex/policy.aex").write_text('policy p v0\ngoal "g"\nuse *\n')
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:/usr/bin:/bin")
    return tmp_path / "work"


def found(root: Path, code: str) -> list[str]:
    told = findings(str(root), home({"HOME": str(root.parent / "home")}))
    return [one.message for one in told if one.code == code]


def servers(root: Path, *words: str, **env: str) -> None:
    server = {"command": "adjourn", "args": ["proxy", *words, "--", "npx", "files", "--policy", "x"], "env": env}
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": {"files": server}}))


def hook(root: Path, command: str, name: str = ".claude/settings.json", **more: object) -> None:
    groups = [{"matcher": "*", "hooks": [{"type": "command", "command": command}]}]
    (root / name).write_text(json.dumps({"hooks": {"PreToolUse": groups}} | more))


def test_every_option_of_hook_and_proxy_is_thought_of() -> None:
    """One that is new is either named here or makes nothing weaker."""
    assert {
        "-C",
        *(option.flag for option in (*options_of("hook"), *options_of("proxy"))),
    } == checks.OPTIONS.keys() | PLAIN


@pytest.mark.parametrize("option", ["--auto-confirm", "--policy=lax.aex", "--errors=jsonrpc", "--take-over"])
def test_options_of_a_proxy_are_named(root: Path, option: str) -> None:
    """Of our command alone: what follows `--` is the server's."""
    servers(root)
    assert found(root, "client-weakened") == []
    servers(root, option)
    (message,) = found(root, "client-weakened")
    assert message.startswith(f".mcp.json: {option.partition('=')[0]} ")


@pytest.mark.parametrize("option", ["--allow-no-policy", "--policy lax.aex", "--store other.db", "--task t"])
def test_options_of_a_hook_are_named(root: Path, option: str) -> None:
    """Each option of a hook that weakens the policy is a finding that names the file and the option."""
    hook(root, f"adjourn hook {option}")
    (message,) = found(root, "client-weakened")
    assert message.startswith(f".claude/settings.json: {option.partition(' ')[0]} ")


@pytest.mark.parametrize("name", ["ADJOURN_CONFIG", "ADJOURN_STORE", "ADJOURN_TASK", "ADJOURN_NEW", "HOME"])
def test_variables_are_named_wherever_settings_set_them(root: Path, name: str) -> None:
    """For a server, for the client and all it starts, and in Codex's file; a value, which may be a secret, is not shown."""
    servers(root, **{name: "hidden", "PATH": "/bin"})
    hook(root, "adjourn hook", env={name: "hidden"})
    (root / ".claude/settings.local.json").write_text(json.dumps({"env": {name: "hidden"}}))
    (root / ".codex/config.toml").write_text(
        f'[mcp_servers.a]\ncommand = "x"\n[mcp_servers.a.env]\n{name} = "hidden"\n'
        f'[shell_environment_policy.set]\n{name} = "hidden"\n'
    )
    said = found(root, "client-weakened")
    assert [message.partition(":")[0] for message in said] == [
        ".mcp.json", ".codex/config.toml", ".claude/settings.json", ".claude/settings.local.json",
    ]  # fmt: skip
    assert all(f" {name} " in message for message in said)
    assert not any("hidden" in message for message in said)


def test_a_server_that_is_only_named_is_found(root: Path) -> None:
    """A name in --proxied that no settings put behind the proxy."""
    servers(root)
    hook(root, "adjourn hook --proxied files")
    assert found(root, "client-proxied") == []
    hook(root, "adjourn hook --proxied files,evil")
    (message,) = found(root, "client-proxied")
    assert "evil" in message
    assert "files" not in message


def test_settings_between_here_and_the_workspace_are_checked(root: Path) -> None:
    """A package of a monorepo lists servers of its own; one that is not behind the proxy is named with the package."""
    package = root / "packages" / "a"
    (package / "src").mkdir(parents=True)
    text = json.dumps(
        {"mcpServers": {"db": {"command": "run-db"}, "files": {"command": "adjourn", "args": ["proxy", "--", "npx"]}}}
    )
    (package / ".mcp.json").write_text(text)
    at = home({"HOME": str(root.parent / "home")})
    [alone] = [each for each in findings(str(root), at, str(package / "src")) if "packages" in each.message]
    assert (alone.code, "packages/a/.mcp.json" in alone.message) == ("client-not-set-up", True)
    servers(root)
    inside = findings(str(root), at, str(package / "src"))
    messages = [each.message for each in inside if each.source == "packages/a/.mcp.json"]
    assert any("server db behind the proxy" in message for message in messages)
    others = [(each.message, each.help) for each in findings(str(root), at) if "packages" in each.source]
    assert len(others) == 1
    assert "db" in others[0][0]
    assert others[0][0].endswith(": not behind the proxy")
    assert others[0][1] == "run adjourn init in packages/a, too"
