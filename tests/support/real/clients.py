"""Real coding agents, each started headless in a workspace, with a scripted model and one MCP server.

The server is given by the command that starts it, or by its URL as the only word.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from support import tools

SERVER = "adjourn"
NOWHERE = "http://127.0.0.1:9"
TASK = "do the task"


@dataclass(frozen=True)
class Agent:
    """A coding agent. `era` is the one it speaks to a server that has both."""

    name: str
    program: Callable[[], list[str] | None]
    prepare: Callable[[Path, str, Sequence[str], dict[str, str]], None]
    arguments: Callable[[Path], list[str]]
    environment: Callable[[Path, str], dict[str, str]]
    era: str
    as_user: Callable[[Path, Path, Sequence[str], dict[str, str]], None]
    """Write down a server as a user has it: workspace, home, command, environment."""
    plain_arguments: tuple[str, ...]
    """Options with which it works by what is written down in the workspace and the home, and asks nobody."""

    def start(
        self, workspace: Path, home: Path, model: str, command: Sequence[str], server_env: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start it in the workspace; its output goes to files in `home`."""
        home.mkdir(parents=True, exist_ok=True)
        self.prepare(home, model, command, server_env)
        return self._started(workspace, home, model, self.arguments(home), {})

    def start_as_set_up(
        self, workspace: Path, home: Path, model: str, around: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start it with nothing but what the workspace and the home hold, and what stands around it."""
        self.prepare(home, model, [], {})
        return self._started(workspace, home, model, list(self.plain_arguments), around)

    def full_environment(self, home: Path, model: str) -> dict[str, str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TERM": "dumb",
            "HTTP_PROXY": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        return environment | self.environment(home, model)

    def _started(
        self, workspace: Path, home: Path, model: str, arguments: list[str], around: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        program = self.program()
        assert program is not None
        with (home / "out.log").open("ab") as out, (home / "err.log").open("ab") as err:
            return subprocess.Popen(
                [*program, *arguments],
                cwd=workspace,
                env=self.full_environment(home, model) | around,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )


def _is_url(command: Sequence[str]) -> bool:
    return command[0].startswith("http://")


# --- Claude Code


def _prepare_claude(home: Path, model: str, command: Sequence[str], server_env: dict[str, str]) -> None:
    del model
    if not command:
        return
    server: dict[str, object] = {"command": command[0], "args": list(command[1:]), "env": server_env}
    if _is_url(command):
        server = {"type": "http", "url": command[0]}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {SERVER: server}}))


def _claude_as_user(workspace: Path, home: Path, command: Sequence[str], server_env: dict[str, str]) -> None:
    (home / ".claude").mkdir(exist_ok=True)  # it is there once Claude Code has run
    server = {"command": command[0], "args": list(command[1:]), "env": server_env}
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {SERVER: server}}, indent=2))


def _claude_arguments(home: Path) -> list[str]:
    tools_of_ours = ["--mcp-config", f"{home}/mcp.json", "--strict-mcp-config", "--allowedTools", f"mcp__{SERVER}"]
    return ["-p", TASK, *tools_of_ours, "--output-format", "stream-json", "--verbose"]


def _claude_environment(home: Path, model: str) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "none-is-needed",
        "ANTHROPIC_BASE_URL": model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CONFIG_DIR": f"{home}/.claude",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    }


# --- Codex


def _quoted(value: object) -> str:
    return json.dumps(value)  # TOML's basic strings and arrays of them are JSON's


def _codex_server(command: Sequence[str], server_env: dict[str, str]) -> str:
    environment = ", ".join(f"{name} = {_quoted(value)}" for name, value in server_env.items())
    started = f"command = {_quoted(command[0])}\nargs = {_quoted(list(command[1:]))}\nenv = {{ {environment} }}"
    return f"""
[mcp_servers.{SERVER}]
{f"url = {_quoted(command[0])}" if _is_url(command) else started}
startup_timeout_sec = 30
default_tools_approval_mode = "approve"
"""


def _codex_as_user(workspace: Path, home: Path, command: Sequence[str], server_env: dict[str, str]) -> None:
    (home / "servers.toml").write_text(
        _codex_server(command, server_env)
        + f"""
[projects.{_quoted(str(workspace))}]
trust_level = "trusted"
"""
    )
    _prepare_codex(home, NOWHERE, [], {})


def _prepare_codex(home: Path, model: str, command: Sequence[str], server_env: dict[str, str]) -> None:
    """Its configuration: with this server, or with those that the user has."""
    kept = home / "servers.toml"
    servers = _codex_server(command, server_env) if command else kept.read_text()
    (home / "config.toml").write_text(f"""
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = {_quoted(model + "/v1")}
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
{servers}""")


def _codex_arguments(home: Path) -> list[str]:
    del home
    return ["exec", "--json", "--skip-git-repo-check", TASK]


def _codex_environment(home: Path, model: str) -> dict[str, str]:
    del model
    return {"CODEX_HOME": str(home), "SCRIPTED_KEY": "none-is-needed"}


CLAUDE = Agent(
    "claude",
    tools.claude,
    _prepare_claude,
    _claude_arguments,
    _claude_environment,
    "modern",
    _claude_as_user,
    (
        "-p", TASK, "--mcp-config", ".mcp.json", "--strict-mcp-config", "--allowedTools", f"mcp__{SERVER}",
        "--output-format", "stream-json", "--verbose",
    ),
)  # fmt: skip
CODEX = Agent(
    "codex",
    tools.codex,
    _prepare_codex,
    _codex_arguments,
    _codex_environment,
    "legacy",
    _codex_as_user,
    (
        "exec",
        "--json",
        "--skip-git-repo-check",
        "--sandbox",
        "danger-full-access",
        "--dangerously-bypass-hook-trust",
        TASK,
    ),
)
