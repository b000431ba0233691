"""aex.resume: published fields and their order, pages of bounded size, and the checkpoints that it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adjourn.checkpoints.folder_verification import verify
from support.in_process import ERAS, ProxyWorkspace, refused, text_of
from support.requirements import requirement


@pytest.mark.parametrize("era", ERAS)
def test_a_resume_has_the_published_fields_first_and_in_order(tmp_path: Path, era: str) -> None:
    """aex.resume answers with the published fields first, in their order, in every protocol era."""
    with ProxyWorkspace(tmp_path, "allow echo", "allow file.read", "deny network.*", "budget calls=100") as work:
        client = work.client()
        for tool in ("echo", "network.fetch", "file.read", "echo"):
            client.call(tool)
        client.meta("aex.checkpoint", name="fix", description="half")
        client.close()
        client = work.client(era=era, foreign=True)
        told = client.meta("aex.resume", name="fix")
        assert list(told)[:6] == [
            "name", "description", "toolsCalled", "callsUsed", "budgetRemaining", "auditSummary",
        ]  # fmt: skip
        assert (told["name"], told["description"]) == ("fix", "half")
        assert (told["toolsCalled"], told["callsUsed"], told["budgetRemaining"]) == (["echo", "file.read"], 3, 97)
        assert all(list(entry) == ["event", "data"] for entry in told["auditSummary"])
        assert [(entry["data"]["tool"], entry["data"]["outcome"]) for entry in told["auditSummary"]] == [
            ("file.read", "ok"),
            ("echo", "ok"),
        ]
        assert told["refused"][0].startswith("network.fetch: refused by a rule: deny network.*")
        assert "inDoubt" not in told


def test_a_resume_leaves_out_what_there_is_not(tmp_path: Path) -> None:
    """aex.resume has no member for a description or a budget that does not exist."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        client.meta("aex.checkpoint", name="fix")
        told = client.meta("aex.resume", name="fix")
        assert "budgetRemaining" not in told
        assert "description" not in told


@requirement("D43")
def test_a_resume_answer_is_bounded_and_its_pages_tell_all(tmp_path: Path) -> None:
    """Each page of a long history has at most 8 KiB, and all pages together have each call once."""
    with ProxyWorkspace(tmp_path, "allow *", "deny secrets.*") as work:
        client = work.client()
        calls = [client.call_message("echo" if n % 3 else f"secrets.n{n}") for n in range(600)]
        client.post(*calls)
        for call in calls:
            client.answer(call["id"])
        client.meta("aex.checkpoint", name="long", description="d" * 1000)
        answer = client.call("aex.resume", {"name": "long"})
        told = json.loads(text_of(answer))
        assert len(text_of(answer).encode()) <= 8 * 1024
        pages = []
        while "more" in told:
            told = client.meta("aex.resume", name="long", more=told["more"])
            assert len(json.dumps(told, separators=(",", ":"))) <= 8 * 1024
            pages.append(told["auditSummary"])
        history = [entry for page in reversed(pages) for entry in page if entry["event"].startswith("tool.")]
        assert [entry["data"]["tool"] for entry in history] == [call["params"]["name"] for call in calls]


@requirement("D43", "D10")
def test_an_odd_cursor_is_no_trouble(tmp_path: Path) -> None:
    """A `more` that aex.resume never gave out is refused, or is past the end."""
    odd: list[Any] = ["\u00b2", "-1", "1.5", "x", "9" * 5000, " 1", "\u0661", 5, ["1"]]
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        client.meta("aex.checkpoint", name="a")
        for more in odd:
            assert refused(client.call("aex.resume", {"name": "a", "more": more})), more
        assert not refused(client.call("aex.resume", {"name": "a", "more": "9" * 18}))
        assert "proxy.bug" not in client.stderr()


@requirement("D43")
def test_a_resume_answer_with_many_doubts_and_tools_is_bounded(tmp_path: Path) -> None:
    """Many calls in doubt and many tools do not make the answer longer than 8 KiB."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client("--task", "t")
        for n in range(80):
            client.begin("silent", {"n": n, "text": "x" * 400})
        calls = [client.call_message(f"tool.{n}{'x' * 100}") for n in range(100)]
        client.post(*calls)
        for call in calls:
            client.answer(call["id"])
        client.meta("aex.checkpoint", name="a")
        client.kill()
        text = text_of(work.client("--task", "t").call("aex.resume", {"name": "a"}))
        told = json.loads(text)
        assert told["callsUsed"] == 180
        assert len(text.encode()) <= 8 * 1024
        assert told["inDoubt"]


@requirement("D4")
@pytest.mark.parametrize("field", ["callsUsed", "budget", "toolHistory", "name", "adjourn"])
@pytest.mark.parametrize("where", ["same store", "brought by git"])
def test_a_checkpoint_that_was_tampered_with_is_refused_whole(tmp_path: Path, field: str, where: str) -> None:
    """An edited checkpoint.json is refused, both beside its store and in a fresh clone."""
    with ProxyWorkspace(tmp_path, "allow echo", "budget calls=5") as work:
        client = work.client("--task", "t")
        for _ in range(3):
            client.call("echo")
        client.meta("aex.checkpoint", name="a")
        client.close()
        path = work.root / ".aex/checkpoints/a/checkpoint.json"
        file = json.loads(path.read_text())
        changes: dict[str, list[Any]] = {
            "callsUsed": [-5, 0, 10**30, None],
            "budget": [10**6],
            "toolHistory": [[]],
            "name": ["b"],
        }
        tried = []
        for value in changes.get(field, ["absent"]):
            changed = {key: item for key, item in file.items() if key != "adjourn" or field != "adjourn"}
            path.write_text(json.dumps(changed | ({} if field == "adjourn" else {field: value})))
            tried.append(value)
            if where == "brought by git":
                for name in ("adjourn.db", "adjourn.db-wal", "adjourn.db-shm"):
                    (work.root / ".aex" / name).unlink(missing_ok=True)
            client = work.client(foreign=True)
            answer = client.call("aex.resume", {"name": "a"})
            assert refused(answer), value
            assert text_of(answer).startswith("Meta-tool error: ")
            client.call("echo")
            client.kill()
            if where == "same store":
                assert work.ledger("t").calls_used == 3
            else:
                assert "t" not in work.tasks()
        assert tried


@requirement("D4")
def test_an_audit_log_that_was_tampered_with_is_refused_where_it_was_brought(tmp_path: Path) -> None:
    """An edited audit.jsonl is refused in a clone, and resumed again once it is restored."""
    with ProxyWorkspace(tmp_path, "allow echo", "budget calls=5") as work:
        client = work.client("--task", "t")
        client.call("echo")
        client.meta("aex.checkpoint", name="a")
        client.close()
        for name in ("adjourn.db", "adjourn.db-wal", "adjourn.db-shm"):
            (work.root / ".aex" / name).unlink(missing_ok=True)
        path = work.root / ".aex/checkpoints/a/audit.jsonl"
        good = path.read_bytes()
        for bad in (good.replace(b'"echo"', b'"ecko"'), good[good.index(b"\n") + 1 :], b"", good[:-40]):
            path.write_bytes(bad)
            client = work.client(foreign=True)
            assert refused(client.call("aex.resume", {"name": "a"}))
            client.kill()
        path.write_bytes(good)
        client = work.client(foreign=True)
        assert client.meta("aex.resume", name="a")["callsUsed"] == 1
        assert verify(str(path.parent)).checkpoint.event.task == "t"
