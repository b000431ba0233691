"""The pages of records: what they say, how two versions differ, and conflicts that a person resolves."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from support.page_in_memory import PageInMemory
from support.task_sessions import SECRET, SharedTask
from support.waiting import noted, opened

AGENT, OTHER = CRAuthor(id="claude-code", type="agent"), CRAuthor(id="codex", type="agent")
HOSTILE = '</textarea><script>alert(1)</script>"&\u202e'


def fields(goal: str = "Ship it", say: str = "batches of 5,000") -> dict[str, Any]:
    by = {"id": "claude-code", "type": "agent"}
    decision = {
        "id": "d1", "description": say, "status": "accepted", "rationale": "quick", "madeBy": by, "madeAt": 1,
        "affects": [], "overridableBy": ["human"],
    }  # fmt: skip
    return {"task": {"id": "t1", "goal": goal, "status": "in-progress", "successCriteria": []}, "decisions": [decision]}


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SharedTask:
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    return SharedTask()


@pytest.fixture
def records(shared: SharedTask) -> RecordTrees:
    return RecordTrees(shared.store, clock=shared.clock)


def page(shared: SharedTask) -> PageInMemory:
    return PageInMemory(shared.store, shared.clock).enter()


def test_a_record_is_listed_and_read(shared: SharedTask, records: RecordTrees) -> None:
    """The list leads to the record, which shows its task, its decisions and why they were made."""
    assert "No record yet" in page(shared).get("/record")
    records.create(fields(), author=AGENT, cr_id="r1")
    assert 'href="/record?id=r1"' in page(shared).get("/record")
    shown = page(shared).get("/record?id=r1")
    for text in ("Ship it", "batches of 5,000", "quick", "accepted", "version 0", "The first version"):
        assert text in shown
    assert page(shared).request("GET", "/record?id=r").status_code == 404


def test_a_record_is_read_in_words(shared: SharedTask) -> None:
    """A decision says who made it, why, and what else was said; times are those of the reader's clock, exact at hover; JSON is folded away."""
    opened(shared)
    noted(shared)
    shown = page(shared).get("/record?id=line")
    decision = re.search(r"<li [^>]*id=\"item-decisions-1\".*?</li>\s*(?=<li|</ul>)", shown, re.DOTALL)
    assert decision
    text, _, as_json = decision[0].partition("as JSON")
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))
    assert "Lock the table? decided" in words
    assert "Made by agent-1, " in words
    assert "Because Lock the table?" in words
    assert "codex: Lock the table? otherwise (Lock the table? why)" in words
    assert not re.findall(r"\b[a-z]+[A-Z]\w*", words), words
    assert "{" not in words
    assert re.search(r'<time datetime="[^"]*Z" title="[^"]*Z">[^<]*\d\d:\d\d', text)
    assert "&#34;overridableBy&#34;" in as_json


def test_two_versions_are_compared(shared: SharedTask, records: RecordTrees) -> None:
    """By default the last two; any two that are chosen; what they share is not shown."""
    records.create(fields(), author=AGENT, cr_id="r1")
    records.update("r1", {"task": fields("Ship 1.4.0")["task"]}, AGENT)
    records.update("r1", {"task": fields("Ship 1.4.1")["task"]}, OTHER)
    last = page(shared).get("/record?id=r1")
    assert "from version 1 to 2" in last
    assert re.findall(r'<pre class="(\w+)" tabindex="0">(.*?)</pre>', last) == [
        ("removed", "Ship 1.4.0"),
        ("added", "Ship 1.4.1"),
    ]
    whole = page(shared).get("/record?id=r1&from=0&to=2")
    assert "Ship it" in whole
    assert "from version 0 to 2" in whole
    assert "The first version" in page(shared).get("/record?id=r1&from=7&to=0")


def test_a_conflict_is_resolved_by_choosing(shared: SharedTask, records: RecordTrees) -> None:
    """Both sides are shown; the chosen one is written once, by the person; who comes second learns it."""
    begun = records.create(fields(), author=AGENT, cr_id="r1")
    records.fork(begun["contentHash"], fields("Ship slowly"), OTHER, cr_id="r2")
    records.update("r1", {"task": fields("Ship today")["task"]}, AGENT)
    records.merge("r1", "r2", "manual", author=AGENT)
    at = page(shared)
    shown = at.get("/record?id=r1")
    assert "Ship today" in shown
    assert "Ship slowly" in shown
    hidden = {
        name: unescape(value)
        for name, value in re.findall(r'type="hidden" name="(csrf|id|path)" value="([^"]*)"', shown)
    }
    sent = at.request("POST", "/record/resolve", data={**hidden, "side": "b"})
    assert sent.status_code == 303
    assert "Resolved." in at.get(sent.headers["location"])
    record = records.resolve("r1")
    assert (record["task"]["goal"], record["lastModifiedBy"]["id"]) == ("Ship slowly", "ann")
    again = at.request("POST", "/record/resolve", data={**hidden, "side": "a"})
    assert "Not resolved" in at.get(again.headers["location"])
    assert records.resolve("r1")["task"]["goal"] == "Ship slowly"
    assert at.request("POST", "/record/resolve", data={**hidden, "side": "c"}).status_code == 400


def test_what_an_agent_wrote_is_inert(shared: SharedTask, records: RecordTrees) -> None:
    """Texts with markup are text, in the list, the record and its changes."""
    records.create(fields(HOSTILE, HOSTILE), author=AGENT, cr_id="r1")
    records.update("r1", {"task": fields(HOSTILE + "2")["task"]}, AGENT)
    for address in ("/record", "/record?id=r1"):
        shown = page(shared).get(address)
        assert "<script>alert" not in shown
        assert "\u202e" not in shown
