"""Machines of several users, who share a repository by git."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from support.proxy import Client, ProxyWorkspace, run

POLICY = ("use file.read", "use file.write", "use echo", "deny network.*", "budget calls=20")
CONTRACT = 'task fix v0\ngoal "Fix the login."\nuse file.read, file.write\nbudget calls=9\nreturn 1\n'
FOLDER = ".aex/checkpoints/fix-auth"


class Machine(ProxyWorkspace):
    """A workspace that is a git repository, with a home, an adjourn configuration and a user of its own."""

    def __init__(self, path: Path, *policy: str, clone: Machine | None = None) -> None:
        path.mkdir()
        self.home = path / "home"
        self.home.mkdir()
        self.user = path.name
        self.work = path / "work"
        if clone is not None:
            self.git("clone", "--quiet", str(clone.root), str(self.work), cwd=path)
        super().__init__(path, *policy)
        if clone is None:
            self.git("init", "--quiet", "--initial-branch=main")
            (self.root / ".gitignore").write_text(".aex/adjourn.db*\n")
            self.commit("begin")

    @property
    def environment(self) -> dict[str, str]:
        person = {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", self.user), ("EMAIL", f"{self.user}@example.org"))
        }
        return super().environment | person | {"HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        # before the workspace is there, its environment is not either
        environment = self.environment if hasattr(self, "config") else os.environ | {"HOME": str(self.home)}
        done = subprocess.run(
            ["git", *arguments], cwd=cwd or self.work, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def pull(self, other: Machine) -> None:
        """Take over what the other machine has committed, as git merges it."""
        self.git("pull", "--quiet", "--no-rebase", "-X", "theirs", str(other.root), "main")

    def adjourn(self, *arguments: str, code: int = 0) -> str:
        """A command of the CLI, in the workspace."""
        done = run(*arguments, cwd=self.root, env=self.environment)
        assert done.code == code, done.out + done.err
        return done.out + done.err

    def public_key(self) -> str:
        return self.adjourn("keys", "show").strip()

    def trust(self, other: Machine) -> None:
        self.adjourn("keys", "trust", other.user, other.public_key())

    def begun(self, *options: str) -> Client:
        """A new client. Each is another program, as on another day."""
        return self.client(*options, foreign=True)

    def carried(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.root / FOLDER / "checkpoint.json").read_bytes())
        return value


def cloned(here: Machine, tmp_path: Path) -> Machine:
    there = Machine(tmp_path / "bob", clone=here)
    assert not (there.root / ".aex" / "adjourn.db").exists()
    assert sorted(os.listdir(there.root / FOLDER)) == ["audit.jsonl", "checkpoint.json"]
    return there
