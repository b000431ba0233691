"""Records between real processes: asked at a terminal, carried from one user's folder to another's."""

from __future__ import annotations

import json
import os
import pty
from pathlib import Path
from typing import Any

import pytest

from support.proxy import run as adjourn
from support.record_folder import AGENT, RecordFolder


class Shell(RecordFolder):
    """Commands that are run as a person runs them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ADJOURN_")}
        self.env = kept | {"ADJOURN_CONFIG": f"{root}-config"}

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What a command prints; on stderr, where it fails."""
        done = adjourn(*arguments, cwd=self.root, env=self.env)
        assert done.code == code, done.out + done.err
        return done.out + done.err

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))


@pytest.fixture
def run(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path / "work")
    shell.fill()
    return shell


def test_merge_interactively(run: Shell) -> None:
    """At a terminal, each open conflict is asked."""
    store = run.store()
    head = store.resolve("line")
    store.fork(head["contentHash"], {"task": {**head["task"], "goal": "theirs"}}, AGENT, cr_id="fork")
    store.update("line", {"task": {**head["task"], "goal": "ours"}}, AGENT)
    master, slave = pty.openpty()
    os.write(master, b"b\n")
    command = ("record", "merge", "line", "fork", "--interactive")
    done = adjourn(*command, cwd=run.root, env=run.env, stdin=slave)
    os.close(master)
    os.close(slave)
    assert done.code == 0, done
    out = done.out
    assert "theirs" in out
    assert store.resolve("line")["task"]["goal"] == "theirs"


def test_carrying(run: Shell, tmp_path: Path) -> None:
    """Exported here, imported there by somebody else, changed on both sides, brought together."""
    other = Shell(tmp_path / "other")
    out = run("record", "export", "--to", str(tmp_path / "one.jsonl"))
    assert out.startswith("written: ")
    assert "vouched for by you" in other("record", "import", str(tmp_path / "one.jsonl"))
    assert other.json("record", "show") == run.json("record", "show")
    assert other.json("record", "import", str(tmp_path / "one.jsonl"))["added"] == 0
    other("answer", "q1", "no")
    run("decide", "d1", "--override", "Use a file", "--because", "smaller")
    other("record", "export", "--to", str(tmp_path / "two.jsonl"))
    assert "--as ID" in run("record", "import", str(tmp_path / "two.jsonl"), code=1)
    run("record", "import", str(tmp_path / "two.jsonl"), "--as", "theirs")
    run("record", "merge", "line", "theirs")
    merged = run.store().resolve("line")
    assert (merged["questionsForUser"][0]["answer"], merged["decisions"][0]["description"]) == ("no", "Use a file")
    assert run("record", "verify").startswith("valid: 2 records")
