"""What the files of `deploy/` define, to be run as processes: no engine for containers, no systemd.

Owns: reading these files, and which of their places and ports become others. Must never: add to what they define.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PROGRAM = [sys.executable, "-m", "adjourn"]
_AUTH = re.compile(r"\[auth\]\nkeys = true\n")
_SERVERS = re.compile(r"\[servers\..*\Z", re.DOTALL)


def instructions(path: Path = DEPLOY / "Containerfile") -> list[tuple[str, str]]:
    """The instructions of a Containerfile, each with its text in one line."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    whole = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in whole.splitlines() if line)]


def final_stage() -> list[tuple[str, str]]:
    """The instructions that make the image itself."""
    found = instructions()
    last = max(index for index, (name, _) in enumerate(found) if name == "FROM")
    return found[last:]


def image() -> dict[str, Any]:
    """What a container of the image runs with: command, environment, user, health check."""
    stage = final_stage()
    told = dict(stage)
    environment = [word.partition("=") for name, rest in stage if name == "ENV" for word in shlex.split(rest)]
    return {
        "command": json.loads(told["ENTRYPOINT"]) + json.loads(told["CMD"]),
        "environment": {name: value for name, _, value in environment},
        "health": json.loads(told["HEALTHCHECK"].partition("CMD ")[2]),
        "user": told["USER"],
        "ports": told["EXPOSE"].split(),
    }


def services() -> dict[str, Any]:
    """The services of the compose file."""
    return dict(YAML(typ="safe").load(DEPLOY / "compose.yaml")["services"])


def unit() -> dict[str, list[str]]:
    """The members of the unit's [Service], each with all of its values."""

    class Several(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            if isinstance(value, list) and key in self:
                self[key].extend(value)
            else:
                super().__setitem__(key, value)

    parser = RawConfigParser(strict=False, dict_type=Several, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "adjourn.service", encoding="utf-8")
    return {name: value.split("\n") for name, value in parser["Service"].items()}


class Place:
    """A folder that stands for the root of a machine, with the configuration and the workspace of `deploy/` in it."""

    def __init__(self, root: Path, workspace: str, server: str) -> None:
        self.root = root
        self.workspace = root / workspace.lstrip("/")
        (self.workspace / ".aex").mkdir(parents=True)
        policy = (DEPLOY / "workspace.example/.aex/policy.aex").read_text(encoding="utf-8")
        (self.workspace / ".aex/policy.aex").write_text(policy, encoding="utf-8")
        self.server = server

    def configure(self, port: int, metrics_port: int, name: str = "adjourn.toml") -> Path:
        """The settings with these ports and with a server that is here. Nobody authenticates on loopback."""
        text = (DEPLOY / "adjourn.toml").read_text(encoding="utf-8")
        text = text.replace("0.0.0.0:8080", f"127.0.0.1:{port}")
        text = text.replace("0.0.0.0:9464", f"127.0.0.1:{metrics_port}")
        text = _SERVERS.sub(f'[servers.tracker]\nurl = "{self.server}"\n', _AUTH.sub("", text))
        assert "0.0.0.0" not in text
        path = self.root / "etc/adjourn" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def key(self, name: str, environment: dict[str, str]) -> str:
        """Make an API key, with the environment of the gateway."""
        here = {variable: self._moved(value) for variable, value in environment.items() if variable != "PATH"}
        done = subprocess.run(
            [*PROGRAM, "serve", "keys", "add", name], cwd=self.workspace, env={"PATH": os.environ["PATH"], **here},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    def start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        """Run a command with nothing but its environment; absolute paths in both are in this place."""
        here = {name: self._moved(value) for name, value in environment.items() if name != "PATH"}
        program = PROGRAM + [self._moved(word) for word in command[1:]]
        with (self.root / "log").open("a") as log:
            process = subprocess.Popen(
                program, cwd=self.workspace, env={"PATH": os.environ["PATH"], **here},
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert process.stdout is not None
        if not process.stdout.readline().startswith("http://127.0.0.1:"):
            process.kill()
            process.communicate()
            raise AssertionError((self.root / "log").read_text(encoding="utf-8"))
        return process

    def _moved(self, value: str) -> str:
        return f"{self.root}{value}" if value.startswith(("/etc/", "/var/", "/workspace")) else value
