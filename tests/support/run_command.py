"""`adjourn run` as a process, with and without a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

from support.terminal import at_terminal

POLICY = """policy work v0
goal "a test"
allow file.read, file.write, tests.run:sh *, git.*
confirm before file.write
budget calls=50
"""
SECONDS = 20.0


class RunWorkspace:
    def __init__(self, path: Path) -> None:
        self.root = path / "work"
        (self.root / ".aex").mkdir(parents=True)
        self.write(".aex/policy.aex", POLICY)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("ADJOURN_", "AEX_"))}
        self.environment = kept | {"ADJOURN_CONFIG": str(path / "config"), "TERM": "xterm"}

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def contract(self, *lines: str, name: str = "task.aex") -> str:
        use = "use file.read, file.write, tests.run, git.*"
        self.write(name, "\n".join(["task work v0", 'goal "do it"', use, *lines, ""]))
        return name

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "adjourn", *arguments]

    def adjourn(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = self.command(*arguments)
        return at_terminal(command, cwd=self.root, env=self.environment, given=given, seconds=SECONDS)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments), cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def waiting(self) -> str:
        """The id of the question that waits, as soon as there is one."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            done = self.adjourn("approve", "--json")
            if done.returncode == 0 and (questions := json.loads(done.stdout)["questions"]):
                return str(questions[0]["approval"])
            time.sleep(0.05)
        raise AssertionError("nobody is asked")

    def on_a_terminal(self, *arguments: str, answers: dict[str, str]) -> tuple[int, str]:
        """Exit code and what a person sees. Each answer is typed when its question is shown."""
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(self.root)
            os.execve(sys.executable, self.command(*arguments), self.environment)
        seen, left = "", dict(answers)
        end = time.monotonic() + SECONDS
        try:
            while time.monotonic() < end:
                if select.select([terminal], [], [], 0.1)[0]:
                    seen += os.read(terminal, 65536).decode(errors="replace")
                for question in [question for question in left if question in seen]:
                    os.write(terminal, left.pop(question).encode())
        except OSError:  # it has ended
            pass
        _, status = os.waitpid(process, 0)
        os.close(terminal)
        return os.waitstatus_to_exitcode(status), seen
