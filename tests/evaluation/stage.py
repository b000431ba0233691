"""The place of one scenario: a workspace, its clients behind real proxies, a person at a terminal, and what a successor is given.

Owns: the processes, and the three ways to read a hand-over. Must never: look into the store.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation.workbench import canonical
from support.hooks import HookEventWorkspace
from support.proxy import Client, Done, refused, run, text_of, wait_for

WORKBENCH = Path(__file__).with_name("workbench.py")
IN_FLIGHT = 200
SECONDS = 60.0


class Stage(HookEventWorkspace):
    """A workspace with a scripted server. `tools` says of each tool whether it only reads."""

    def __init__(self, path: Path, tools: Mapping[str, bool], policy: list[str], name: str = "work") -> None:
        super().__init__(path, *policy, name=name, version="v1")
        self.base = path
        (self.upstream / "tools.json").write_text(json.dumps(dict(tools)))
        self._answers: dict[str, list[str]] = {}

    # --- clients

    def begin_session(self, name: str, *options: str) -> Client:
        """A client of another program than the one before."""
        upstream = [sys.executable, "-I", "-S", str(WORKBENCH), str(self.upstream)]
        return self.client(*options, name=name, upstream=upstream, foreign=True)

    def script(self, tool: str, arguments: Mapping[str, Any], kind: str, text: str = "") -> None:
        """Have the server answer this call so."""
        self._answers[f"{tool} {canonical(dict(arguments))}"] = [kind, text]
        beside = self.upstream / "answers.new"
        beside.write_text(json.dumps(self._answers))
        os.replace(beside, self.upstream / "answers.json")

    @staticmethod
    def calls(client: Client, calls: list[tuple[str, dict[str, Any]]]) -> None:
        """Many calls that go well, several in flight."""
        for start in range(0, len(calls), IN_FLIGHT):
            messages = [client.call_message(*one) for one in calls[start : start + IN_FLIGHT]]
            client.post(*messages)
            for message in messages:
                answer = client.answer(message["id"], SECONDS)
                assert not refused(answer), text_of(answer)

    def hang(self, client: Client, tool: str, arguments: dict[str, Any]) -> None:
        """A call that was sent, and is never answered."""
        self.script(tool, arguments, "silent")
        client.begin(tool, arguments)
        client.ask("ping")  # the proxy has read it
        client.ask("tools/list")  # the server, too

    @staticmethod
    def terminate(client: Client) -> None:
        """End a client's proxy as a system does that shuts down."""
        os.kill(client.proxy_pid, signal.SIGTERM)
        client.ended(SECONDS)
        client.kill()

    # --- the person

    def person(self, *words: str, code: int = 0) -> Done:
        """A command at a person's terminal."""
        done = run(*words, cwd=self.root, env=self.environment)
        assert done.code == code, f"adjourn {' '.join(words)}: {done.out}{done.err}"
        return done

    def waiting(self) -> list[dict[str, Any]]:
        """The calls that wait for a person."""
        listed = self.person("approve", "--json").json
        found: list[dict[str, Any]] = next(
            value for name, value in listed.items() if isinstance(value, list) and name != "resumePoints"
        )
        return found

    def wait_for_question(self) -> dict[str, Any]:
        """The one call that waits, as soon as it does."""
        wait_for(self.waiting, SECONDS)
        return self.waiting()[-1]

    def checkpoints(self) -> list[str]:
        """The names of the checkpoints, the newest first."""
        listed = self.person("checkpoint", "list", "--json").json["checkpoints"]
        return [one["name"] for one in sorted(listed, key=lambda one: one["timestamp"], reverse=True)]

    def task_of(self, checkpoint: str) -> str:
        listed = self.person("checkpoint", "list", "--json").json["checkpoints"]
        return str(next(one["task"] for one in listed if one["name"] == checkpoint))

    def has_option(self, command: str, option: str) -> bool:
        return option in self.person(command, "--help").out

    # --- what a successor is given

    def keep(self) -> Path:
        """A copy of everything that a reader might change, for `put_back`."""
        kept = self.base / "kept"
        for part in (self.root, self.config):
            shutil.copytree(part, kept / part.name, symlinks=True)
        return kept

    def put_back(self, kept: Path) -> None:
        for part in (self.root, self.config):
            shutil.rmtree(part)
            shutil.copytree(kept / part.name, part, symlinks=True)

    def told_by_resume(self, checkpoint: str, *options: str) -> str:
        """The answer of `aex.resume` to a new client."""
        client = self.begin_session("successor", *options)
        try:
            answer = client.call("aex.resume", {"name": checkpoint})
            assert not refused(answer), text_of(answer)
            return text_of(answer)
        finally:
            client.kill()

    def told_by_hook(self, *options: str) -> str:
        """What the hook of a client's session start puts into the prompt."""
        return self.brief(*options)

    def told_by_command(self, checkpoint: str, *options: str) -> str:
        """What `adjourn resume NAME` prints."""
        return self.person("resume", checkpoint, *options).out
