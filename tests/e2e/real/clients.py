"""Real coding agents, each started headless in a workspace, with a scripted model and one MCP server: the proxy."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tools

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

    def start(
        self, workspace: Path, home: Path, model: str, command: Sequence[str], server_env: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start it in the workspace; its output goes to files in `home`."""
        program = self.program()
        assert program is not None
        home.mkdir(parents=True, exist_ok=True)
        self.prepare(home, model, command, server_env)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TERM": "dumb",
            "HTTP_PROXY": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        with (home / "out.log").open("wb") as out, (home / "err.log").open("wb") as err:
            return subprocess.Popen(
                [*program, *self.arguments(home)],
                cwd=workspace,
                env=environment | self.environment(home, model),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )


# --- Claude Code


def _prepare_claude(home: Path, model: str, command: Sequence[str], server_env: dict[str, str]) -> None:
    del model
    server = {"command": command[0], "args": list(command[1:]), "env": server_env}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {SERVER: server}}))


def _claude_arguments(home: Path) -> list[str]:
    tools_of_ours = [
        "--mcp-config",
        f"{home}/mcp.json",
        "--strict-mcp-config",
        "--allowedTools",
        f"mcp__{SERVER}",
    ]
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


def _prepare_codex(home: Path, model: str, command: Sequence[str], server_env: dict[str, str]) -> None:
    def quoted(value: object) -> str:
        return json.dumps(value)  # TOML's basic strings and arrays of them are JSON's

    environment = ", ".join(f"{name} = {quoted(value)}" for name, value in server_env.items())
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
base_url = {quoted(model + "/v1")}
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0

[mcp_servers.{SERVER}]
command = {quoted(command[0])}
args = {quoted(list(command[1:]))}
env = {{ {environment} }}
startup_timeout_sec = 30
default_tools_approval_mode = "approve"
""")


def _codex_arguments(home: Path) -> list[str]:
    del home
    return ["exec", "--json", "--skip-git-repo-check", TASK]


def _codex_environment(home: Path, model: str) -> dict[str, str]:
    del model
    return {"CODEX_HOME": str(home), "SCRIPTED_KEY": "none-is-needed"}


CLAUDE = Agent("claude", tools.claude, _prepare_claude, _claude_arguments, _claude_environment, "modern")
CODEX = Agent("codex", tools.codex, _prepare_codex, _codex_arguments, _codex_environment, "legacy")
AGENTS = (CLAUDE, CODEX)
