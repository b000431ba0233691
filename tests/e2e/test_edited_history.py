"""An event that was edited behind the cached fold is never shown as history: by a command, a resume, or a folder."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from support.proxy import ProxyWorkspace, refused, run, text_of

OLD, NEW = b'"tool":"deploy"', b'"tool":"delete"'


def edit(work: ProxyWorkspace) -> None:
    """The bytes alone."""
    rewrite(work, mend=0)


def edit_and_mend(work: ProxyWorkspace) -> None:
    """The bytes, and the stored hash with them: only the next event tells."""
    rewrite(work, mend=1)


def edit_and_relink(work: ProxyWorkspace) -> None:
    """The bytes, and hashes and links of three events after them: what is wrong is seen long after what was edited."""
    rewrite(work, mend=4)


def as_text(work: ProxyWorkspace) -> None:
    """The same characters as a text, which SQLite takes in any column."""
    with closing(sqlite3.connect(work.store_url)) as connection:
        connection.execute("UPDATE event SET data = CAST(data AS TEXT) WHERE position & 1099511627775 = 2")
        connection.commit()


def rewrite(work: ProxyWorkspace, mend: int) -> None:
    with closing(sqlite3.connect(work.store_url)) as connection:
        rows = connection.execute("SELECT position, hash, data FROM event ORDER BY position").fetchall()
        at = next(number for number, row in enumerate(rows) if OLD in row[2])
        link: tuple[str, str] = ("", "")
        for number, (position, old, data) in enumerate(rows[at : at + max(mend, 1)]):
            changed = data.replace(OLD, NEW) if not number else data.replace(link[0].encode(), link[1].encode())
            link = old, sha256(changed).hexdigest() if mend else old
            connection.execute("UPDATE event SET hash = ?, data = ? WHERE position = ?", (link[1], changed, position))
        connection.commit()


@pytest.fixture(params=[edit, edit_and_mend, edit_and_relink, as_text])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProxyWorkspace]:
    """A task that ended well, with a checkpoint and a fold behind which an event is edited then."""
    harm: Callable[[ProxyWorkspace], None] = request.param
    with ProxyWorkspace(tmp_path, "allow *") as workspace:
        client = workspace.client("--task", "t")
        for _ in range(3):
            client.call("deploy")
            client.call("file.read")
        client.meta("aex.checkpoint", name="safe")
        assert client.close() == 0
        assert run("log", "t", cwd=workspace.root, env=workspace.environment).code == 0
        harm(workspace)
        yield workspace


@pytest.mark.parametrize(
    "command",
    [
        ("log", "t"),
        ("log", "t", "--json"),
        ("log", "t", "--full"),
        ("resume", "safe"),
        ("resume", "safe", "--more", "5"),
        ("checkpoint", "export", "safe", "--to", "elsewhere"),
        ("effective", "--replay"),
    ],
    ids=" ".join,
)
def test_a_command_shows_nothing_of_it(work: ProxyWorkspace, command: tuple[str, ...]) -> None:
    """Each ends with exit code 1 and names an event, before any line of that history is printed."""
    done = run(*command, cwd=work.root, env=work.environment)
    assert done.code == 1, done.out
    assert "fails verification at event" in done.err + done.out
    assert "adjourn verify" in done.err + done.out
    assert "delete" not in done.out
    assert not (work.root / "elsewhere" / "checkpoint.json").exists()
    assert not (work.root / "elsewhere" / "audit.jsonl").exists()


def test_a_resume_tells_an_agent_nothing_of_it(work: ProxyWorkspace) -> None:
    """`aex.resume` is an error then."""
    client = work.client("--task", "t")
    answer = client.call("aex.resume", {"name": "safe"})["result"]
    assert answer["isError"]
    assert "delete" not in answer["content"][0]["text"]
    client.close()


def test_a_proxy_calls_nothing_with_effects_over_it(work: ProxyWorkspace) -> None:
    """Each such call is refused and says where the history was changed; a call that only reads is not."""
    executed = work.executed()
    client = work.client("--task", "t")
    for _ in range(2):
        answer = client.call("deploy")
        assert refused(answer)
        assert "fails verification at event" in text_of(answer)
    assert not refused(client.call("file.read"))
    client.close()
    assert work.executed() == [*executed, "file.read"]


def test_a_client_is_told_of_it_when_its_session_starts(work: ProxyWorkspace) -> None:
    """The hook at the start of a session says that the history was changed, and tells nothing of it."""
    done = subprocess.run(
        [sys.executable, "-m", "adjourn", "hook", "--task", "t"],
        input=json.dumps({"hook_event_name": "SessionStart", "cwd": str(work.root)}),
        cwd=work.root, env=work.environment, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    told = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert "fails verification at event" in told
    assert "delete" not in told


def test_doctor_finds_it(work: ProxyWorkspace) -> None:
    """Its exit code is 1, and it names the event and a remedy."""
    done = run("doctor", "--json", cwd=work.root, env=work.environment)
    assert done.code == 1
    assert "task-changed" in [one["code"] for one in json.loads(done.out)["findings"]]


def test_a_folder_that_stands_is_not_replaced_by_it(work: ProxyWorkspace) -> None:
    """What was exported before stays as it was."""
    folder = work.root / ".aex" / "checkpoints" / "safe"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert run("checkpoint", "export", "safe", cwd=work.root, env=work.environment).code == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_holds_is_shown_from_anywhere(tmp_path: Path) -> None:
    """A history that was not touched is shown whole, by its end, and page by page."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client("--task", "t")
        for _ in range(20):
            client.call("deploy")
        client.meta("aex.checkpoint", name="safe")
        client.close()
        whole = run("log", "t", "--json", cwd=work.root, env=work.environment).out.splitlines()
        for tail in (0, 1, 5, 1000):
            shown = run("log", "t", "--json", "--tail", str(tail), cwd=work.root, env=work.environment)
            assert shown.out.splitlines() == (whole[-tail:] if tail else [])
        for more in ("1", "7", str(len(whole)), "99999"):
            assert run("resume", "safe", "--more", more, cwd=work.root, env=work.environment).code == 0
