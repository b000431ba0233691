"""Clients with hooks whose agent follows a script, as processes of their own: Claude Code's kind and Codex's kind.

Each hook runs as a child of its client's process, which can be killed. The agent never makes a checkpoint.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from support.hooks import HOOK, SETTLE, HookAnswer, HookEventWorkspace

TASK = ("--task", "pattern")
CLAUDE, CODEX = "claude-code", "codex"
LOOP = 'while read -r line; do sh "$line"; done'
SECONDS = 30.0


class ScriptedWorkspace(HookEventWorkspace):
    """A workspace in which one client after the other works on a task."""

    kind = CLAUDE
    process: subprocess.Popen[str] | None = None
    count = 0

    def begin(self, kind: str) -> str:
        """A client starts. Returns what its agent learns of the work so far."""
        self.end_process()
        self.kind = kind
        place = self.root.parent / kind  # a client is recognized by its program's name
        place.mkdir(exist_ok=True)
        if not (place / kind).exists():
            shutil.copy2(Path("/bin/sh").resolve(), place / kind)
        self.process = subprocess.Popen([place / kind, "-c", LOOP], stdin=subprocess.PIPE, text=True)
        return self.brief()

    def answer_to(
        self, data: bytes, *options: str, command: Sequence[str] = HOOK, env: dict[str, str] | None = None
    ) -> HookAnswer:
        """The hook's answer, which the client's own process has run."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.count += 1
        base = self.root.parent / f"call-{self.count}"
        base.with_suffix(".in").write_bytes(data)
        words = shlex.join([*command, *options, *TASK, "--client", self.kind])
        pid = f"CLAUDE_PID={self.process.pid}" if self.kind == CLAUDE else ""
        script = (
            f"cd {shlex.quote(str(self.root))}\n{pid} {words} <{base}.in >{base}.out 2>{base}.err\necho $? >{base}.rc\n"
        )
        base.with_suffix(".sh").write_text(script)
        self.process.stdin.write(f"{base}.sh\n")
        self.process.stdin.flush()
        self.wait_for(base.with_suffix(".rc"))
        out, err = (base.with_suffix(suffix).read_text() for suffix in (".out", ".err"))
        return self.read_answer(int(base.with_suffix(".rc").read_text()), out, err)

    def wait_for(self, path: Path) -> None:
        end = time.monotonic() + SECONDS
        while not (path.exists() and path.read_text().endswith("\n")):
            assert time.monotonic() < end, path
            time.sleep(0.005)

    # --- what the agent does

    def act(self, name: str, arguments: dict[str, Any], *, fails: bool = False) -> str:
        """A call to its end. Returns the decision."""
        asked = self.ask_for(name, arguments)
        if asked == "allow":
            self.say_outcome(name, arguments, fails=fails)
        return asked

    def ask_for(self, name: str, arguments: dict[str, Any]) -> str:
        answer = self.ask(name, arguments, SETTLE, tool_use_id=f"use_{self.count}")
        assert answer.code == 0, answer.err
        return answer.decision or "allow"  # Codex learns by silence that it may

    def say_outcome(self, name: str, arguments: dict[str, Any], *, fails: bool) -> None:
        """Claude Code has an event for failures, Codex tells the exit code in the response."""
        use, event = f"use_{self.count - 1}", "PostToolUse"
        members: dict[str, Any] = {"tool_response": {"ok": True}}
        if fails and self.kind == CLAUDE:
            event, members = "PostToolUseFailure", {"error": "connection refused"}
        elif fails:
            members = {"tool_response": "Exit code: 1\nOutput:\nconnection refused"}
        told = self.tell(event, tool_name=name, tool_input=arguments, tool_use_id=use, **members)
        assert told.code == 0, told.err

    def write(self, name: str, text: str = "x") -> str:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        decision = self.act("Write", {"file_path": str(path), "content": text})
        if decision == "allow":
            path.write_text(text)
        return decision

    def shell(self, command: str, *, fails: bool = False) -> str:
        return self.act("Bash", {"command": command}, fails=fails)

    def close(self) -> None:
        """The client exits in an orderly way."""
        if self.kind == CLAUDE:
            assert self.tell("SessionEnd", reason="other").code == 0
        else:
            assert self.tell("Stop").code == 0
        self.end_process()

    def end_process(self) -> None:
        """SIGKILL, at once."""
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.kill()
            self.process.stdin.close()
            self.process.wait()
            self.process = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_process()
        super().__exit__(kind, error, trace)

    @property
    def page(self) -> str:
        return (self.root / "tmp" / "checkpoint-active.md").read_text()


def in_git(work: ScriptedWorkspace) -> None:
    """Make the workspace a repository with one commit."""
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "base"]):
        subprocess.run(["git", *arguments], cwd=work.root, check=True, env=os.environ | who)
