"""A history that was deleted, cut, emptied or replaced: nothing with effects is called over it, and nothing is refunded."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from support.in_process import ProxyWorkspace, refused, run, text_of

POLICY = ("allow *", "budget calls=5")


def delete(work: ProxyWorkspace) -> None:
    """As `git clean -fdx` leaves it: the policy is tracked, the rest is gone."""
    shutil.rmtree(work.root / ".aex")
    work.policy_file.parent.mkdir()
    work.write_policy(*POLICY)


def delete_files(work: ProxyWorkspace) -> None:
    for path in work.root.glob(".aex/adjourn.db*"):
        path.unlink()


def replace(work: ProxyWorkspace) -> None:
    """Another store, with a history of its own, in the place of this one."""
    delete_files(work)
    (work.root / "elsewhere").mkdir()
    run("tasks", cwd=work.root / "elsewhere", env=work.environment)
    with closing(sqlite3.connect(work.store_url)) as connection:
        connection.execute("PRAGMA user_version")


def cut(work: ProxyWorkspace) -> None:
    change(work, "DELETE FROM event WHERE position & 1099511627775 >= 3")


def empty(work: ProxyWorkspace) -> None:
    change(work, "DELETE FROM event; DELETE FROM stream; DELETE FROM ref; DELETE FROM blob")


def change(work: ProxyWorkspace, script: str) -> None:
    with closing(sqlite3.connect(work.store_url)) as connection:
        connection.executescript(script)


GONE = [delete, delete_files, replace, cut, empty]


@pytest.mark.parametrize("harm", GONE)
def test_a_living_proxy_calls_nothing_over_a_history_that_is_gone(
    tmp_path: Path, harm: Callable[[ProxyWorkspace], None]
) -> None:
    """A store that goes away under a proxy is noticed before the next call with effects leaves."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--task", "t")
        assert not refused(client.call("deploy"))
        harm(work)
        answer = client.call("deploy")
        assert refused(answer)
        assert any(part in text_of(answer) for part in ("deleted or replaced", "was cut or changed"))
        assert refused(client.call("deploy"))
        assert work.executed() == ["deploy"]
        client.close()


@pytest.mark.parametrize("options", [("--task", "t"), ()], ids=["named", "the client's own"])
@pytest.mark.parametrize("harm", GONE)
def test_a_restart_over_a_history_that_is_gone_refunds_nothing(
    tmp_path: Path, harm: Callable[[ProxyWorkspace], None], options: tuple[str, ...]
) -> None:
    """A new proxy finds that the task's history is not the one that was seen, and calls nothing until a person says so."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client(*options)
        for _ in range(4):
            assert not refused(client.call("deploy"))
        client.kill()
        harm(work)
        client = work.client(*options)
        answer = client.call("deploy")
        assert refused(answer)
        assert "was cut or changed" in text_of(answer)
        assert "adjourn verify" in text_of(answer)
        assert work.executed() == ["deploy"] * 4
        client.close()
        checked = run("verify", cwd=work.root, env=work.environment)
        assert checked.code == 1
        assert "history-cut" in checked.out
        assert not checked.first.startswith("valid")
        assert run("doctor", cwd=work.root, env=work.environment).code == 1
        assert run("status", cwd=work.root, env=work.environment).code == 1


def test_a_person_can_accept_what_is_left(tmp_path: Path) -> None:
    """`adjourn verify --accept` lets the next session begin with what is in the store."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--task", "t")
        client.call("deploy")
        client.kill()
        delete(work)
        client = work.client("--task", "t")
        assert refused(client.call("deploy"))
        accepted = run("verify", "t", "--accept", cwd=work.root, env=work.environment)
        assert (accepted.code, accepted.first) == (0, "valid: 0 tasks, 0 events, 0 checkpoints, 0 documents")
        assert not refused(client.call("deploy"))
        assert client.close() == 0
        assert work.ledger("t").calls_used == 1
        assert run("verify", cwd=work.root, env=work.environment).code == 0


def test_events_that_do_not_hold_are_not_accepted(tmp_path: Path) -> None:
    """A person's word is for a history that ends too early, not for one that was edited."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--task", "t")
        client.call("deploy")
        client.close()
        change(work, "UPDATE event SET data = CAST(replace(CAST(data AS TEXT), 'deploy', 'delete') AS BLOB)")
        done = run("verify", "t", "--accept", cwd=work.root, env=work.environment)
        assert done.code == 3
        assert "hash-mismatch" in done.err


def test_a_folder_brings_a_deleted_history_back(tmp_path: Path) -> None:
    """The newest checkpoint folder, from version control, says what was spent: until it is taken in nothing is called."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--task", "t")
        for _ in range(3):
            client.call("deploy")
        client.meta("aex.checkpoint", name="safe")
        client.close()
        delete_files(work)
        client = work.client("--task", "t")
        assert refused(client.call("deploy"))
        done = run("checkpoint", "import", ".aex/checkpoints/safe", cwd=work.root, env=work.environment)
        assert done.code == 0, done.err
        assert not refused(client.call("deploy"))
        assert not refused(client.call("deploy"))
        assert "budget" in text_of(client.call("deploy"))
        assert client.close() == 0
        assert work.executed() == ["deploy"] * 5


def test_a_folder_alone_says_what_a_store_lacks(tmp_path: Path) -> None:
    """On a machine that never saw the task, a trusted folder of it keeps a session from beginning the task at zero."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--task", "t")
        client.call("deploy")
        client.meta("aex.checkpoint", name="safe")
        client.close()
        delete_files(work)
        shutil.rmtree(work.config / "heads")
        client = work.client("--task", "t")
        answer = client.call("deploy")
        assert refused(answer)
        assert "the signed folder .aex/checkpoints/safe has" in text_of(answer)
        done = run("verify", cwd=work.root, env=work.environment)
        assert done.code == 1
        assert "folder-ahead" in done.out
        assert client.meta("aex.resume", name="safe")["callsUsed"] == 1
        assert not refused(client.call("deploy"))
        assert client.close() == 0
        assert work.ledger("t").calls_used == 2


def test_a_forged_folder_keeps_nobody_from_working(tmp_path: Path) -> None:
    """A folder that does not verify says nothing of how far a history reaches."""
    with ProxyWorkspace(tmp_path, *POLICY) as work:
        client = work.client("--task", "t")
        client.meta("aex.checkpoint", name="safe") if not refused(client.call("deploy")) else None
        client.close()
        made = work.root / ".aex/checkpoints/safe/checkpoint.json"
        made.write_text(made.read_text().replace('"seq": ', '"seq": 9'))
        client = work.client("--task", "t")
        assert not refused(client.call("deploy"))
        assert client.close() == 0


def test_kills_and_restarts_are_no_contradiction(tmp_path: Path) -> None:
    """Whatever a killed proxy left, the next one continues, and every call is counted once."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        for _ in range(4):
            client = work.client("--task", "t")
            for _ in range(3):
                assert not refused(client.call("deploy"))
                assert not refused(client.call("file.read"))
            client.kill()
        client = work.client("--task", "t")
        assert not refused(client.call("deploy"))
        assert client.close() == 0
        assert work.ledger("t").calls_used == 25
        assert run("verify", cwd=work.root, env=work.environment).code == 0
