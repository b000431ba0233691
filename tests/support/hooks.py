"""Clients that call `adjourn hook`, one process a call."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from support.proxy import ProxyWorkspace

HOOK = [sys.executable, "-m", "adjourn", "hook"]


class HookAnswer(NamedTuple):
    """What a hook came to."""

    code: int
    decision: str
    reason: str
    out: str
    err: str


HOOK_POLICY = (
    "use file.*, shell.exec, todo.*",
    "deny file.write:secrets/**",
    "confirm before shell.exec",
    "budget calls=3",
)
"""A policy that allows, denies and confirms tools of Claude Code, three calls in all."""


class HookWorkspace(ProxyWorkspace):
    """A workspace whose client has hooks, and no proxy unless it is started."""

    def ask(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *options: str,
        command: Sequence[str] = HOOK,
        env: dict[str, str] | None = None,
        **members: Any,
    ) -> HookAnswer:
        request = {
            "session_id": "s1", "transcript_path": "/nowhere", "cwd": str(self.root), "permission_mode": "default",
            "hook_event_name": "PreToolUse", "tool_name": name, "tool_input": arguments or {}, "tool_use_id": "toolu_1",
        } | members  # fmt: skip
        return self.answer_to(json.dumps(request).encode(), *options, command=command, env=env)

    def answer_to(
        self, data: bytes, *options: str, command: Sequence[str] = HOOK, env: dict[str, str] | None = None
    ) -> HookAnswer:
        done = subprocess.run(
            [*command, *options],
            input=data,
            capture_output=True,
            cwd=self.root.parent,
            env=self.environment | (env or {}),
            timeout=30,
            check=False,
        )
        return self.read_answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def read_answer(self, code: int, out: str, err: str) -> HookAnswer:
        output = json.loads(out).get("hookSpecificOutput", {}) if out else {}
        return HookAnswer(
            code, output.get("permissionDecision", ""), output.get("permissionDecisionReason", ""), out, err
        )

    @property
    def environment(self) -> dict[str, str]:
        return {key: value for key, value in super().environment.items() if not key.startswith("CLAUDE")}


SETTLE = "--settle"


class HookEventWorkspace(HookWorkspace):
    """A workspace whose client has a hook for every event."""

    def tell(self, event: str, *options: str, env: Any = None, **members: Any) -> HookAnswer:
        body = {"session_id": "s1", "cwd": str(self.root), "hook_event_name": event} | members
        return self.answer_to(json.dumps(body).encode(), SETTLE, *options, env=env)

    def run(self, name: str, arguments: dict[str, Any], use: str, *options: str, **members: Any) -> HookAnswer:
        """Ask, and tell that it went well."""
        asked = self.ask(name, arguments, SETTLE, *options, tool_use_id=use)
        if asked.decision == "allow":
            self.done(name, arguments, use, *options, **members)
        return asked

    def done(self, name: str, arguments: dict[str, Any], use: str, *options: str, **members: Any) -> HookAnswer:
        members = {"tool_response": {"ok": True}, "duration_ms": 12} | members
        told = self.tell("PostToolUse", *options, tool_name=name, tool_input=arguments, tool_use_id=use, **members)
        assert (told.code, told.err) == (0, "")
        assert not told.out or "additionalContext" in told.out
        return told

    def brief(self, *options: str, env: dict[str, str] | None = None, source: str = "startup") -> str:
        told = self.tell("SessionStart", *options, env=env, source=source)
        assert told.code == 0, told.err
        if not told.out:
            return ""
        output = json.loads(told.out)["hookSpecificOutput"]
        assert set(output) == {"hookEventName", "additionalContext"}
        assert output["hookEventName"] == "SessionStart"
        return str(output["additionalContext"])
