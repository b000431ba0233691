"""`adjourn report`: what it says of a task, and that nothing of an agent counts as markup in it."""

from __future__ import annotations

import contextlib
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from adjourn.cli import work_report
from adjourn.cli.app import main
from adjourn.host.clock import now
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.approvals import answer
from adjourn.tasks.task import NewEvent, Task
from support.record_folder import RecordFolder
from support.waiting import asked, called, in_doubt, noted

HOSTILE = (
    "<script>alert(1)</script> ![x](http://evil/x.png) @everyone `` ` ``` \x1b[2J\u202e | <img src=http://evil> token=ghp_"
    + "a1B2" * 9
)
TAGS = {
    "html", "head", "main", "meta", "title", "style", "body", "h1", "h2", "dl", "dt", "dd", "p", "ul", "li", "div", "table", "thead", "tbody",
    "tr", "th", "td", "code", "pre", "svg", "path", "text", "circle", "section", "header", "footer", "figure", "figcaption", "details",
    "summary", "ol", "span", "strong", "time",
}  # fmt: skip


class Reporting(RecordFolder):
    """A workspace with one task, and its reports."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.database = SqliteStore(root / ".aex" / "adjourn.db")
        self.clock = now
        self.history = self.task()
        self.store = self.database  # type: ignore[assignment]

    def task(self) -> Task:
        return Task(self.database, "t1", clock=now, secret=b"s" * 32)

    def open(self, goal: str) -> None:
        self.history.commit(lambda _: [NewEvent(kinds.TaskOpened(goal=goal), Actor("codex", "agent"))])

    def __call__(self, *arguments: str, code: int = 0) -> str:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert main(["report", *arguments]) == code, out.getvalue() + err.getvalue()
        return out.getvalue() + err.getvalue()


class Elements(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


@pytest.fixture
def report(unattended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reporting:
    for name in ("ADJOURN_STORE", "ADJOURN_TASK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    return Reporting(tmp_path / "work")


def test_a_report_says_what_was_done_and_who_approved_it(report: Reporting) -> None:
    """Goal, spent calls, outcomes, approvals with their person and reason, what is in doubt, and the verification are in both forms."""
    report.open("Release 1.4.0")
    called(report.history, "c1", "shell.run", '{"command": "pytest -q"}', "2 failed")
    asked(report.history, "k1", "deploy", arguments='{"name": "prod"}')
    answer(report.history, "k1", yes=False, via="cli", by=Actor("ann", "human"))
    in_doubt(report.history, "c9", "pay")
    noted(report)  # type: ignore[arg-type]
    for form in ("--html", "--md"):
        text = report("t1", form)
        for said in (
            "Release 1.4.0",
            "shell.run",
            "2 failed",
            "deploy prod",
            "denied",
            "ann",
            "pay",
            "in doubt",
            "Valid: 6 events",
            "Lock the table? decided",
        ):
            assert said in text, (form, said)
    assert "**Valid" in report()


def test_the_same_is_there_for_programs(report: Reporting) -> None:
    """`--json` prints the report as a document."""
    report.open("g")
    called(report.history, "c1", "shell.run")
    found: dict[str, Any] = json.loads(report("--json"))
    assert (found["goal"], found["check"]["valid"], found["spent"]) == ("g", True, "1")
    assert [one["label"] for one in found["entries"]] == ["task", "ok"]


def test_nothing_of_an_agent_counts_as_markup(report: Reporting) -> None:
    """Hostile text in every field is text: no element, no attribute that loads something, no control character, no secret."""
    report.open(HOSTILE)
    called(report.history, "c1", HOSTILE, json.dumps({"path": HOSTILE}), HOSTILE)
    asked(report.history, "k1", HOSTILE, arguments=json.dumps({"name": HOSTILE}))
    answer(report.history, "k1", yes=False, via="cli", by=Actor("ann", "human"))
    in_doubt(report.history, "c9", HOSTILE, json.dumps({"to": HOSTILE}))
    noted(report, HOSTILE)  # type: ignore[arg-type]
    page, text = report("--html"), report("--md")
    elements = Elements(page)
    assert elements.tags <= TAGS
    assert elements.attributes.isdisjoint({"src", "href", "style", "onclick", "onerror", "xlink:href"})
    assert "default-src 'none'" in page
    for shown in (page, text):
        assert "ghp_a1B2" not in shown
        assert all(char.isprintable() or char == "\n" for char in shown)
    outside = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    outside = re.sub(r"`[^`\n]*`", "", outside)
    for mark in ("<", "@", "[", "evil", "`"):
        assert mark not in outside, outside


def test_a_long_task_is_cut_and_says_so(report: Reporting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit older rows are left out, counted, and the budget is still that of all calls."""
    monkeypatch.setattr(work_report, "MAX_ROWS", 3)
    report.open("g")
    for number in range(8):
        called(report.history, f"c{number}", f"tool{number}")
    text = report("--md")
    assert "tool7" in text
    assert "tool4" not in text
    assert "6 older calls and events are not shown" in text
    assert "calls spent: `8`" in text


def test_a_file_is_written(report: Reporting) -> None:
    """`--out FILE.html` writes HTML, replaces what was there, and says how large it is; two forms at once are wrong usage."""
    report.open("g")
    file = report.root / "report.html"
    file.write_text("old")
    assert report("--out", "report.html").startswith("wrote report.html: ")
    assert file.read_text().startswith("<!doctype html>")
    assert "exclude each other" in report("--html", "--md", code=2)


def test_a_call_opens_in_the_file(report: Reporting) -> None:
    """Its arguments and the hash of its event are in the file, which has times in UTC, and no link, form or script."""
    report.open("g")
    called(report.history, "c1", "shell.run", '{"command": "pytest -q"}', "2 failed")
    page = report("--html")
    assert "<details" in page
    assert re.search(r"<dt>command</dt>\s*<dd><code>pytest -q</code>", page)
    assert report.history.head.hash in page
    assert " ago" not in page
    assert Elements(page).tags.isdisjoint({"a", "form", "input", "script", "link"})


def test_the_sessions_are_drawn_as_on_the_page(report: Reporting) -> None:
    """With each call as a mark, and without a link: the file is read where no page is served."""
    report.open("g")
    opened = kinds.SessionOpened(client=HOSTILE, group="g", host="h", pid=1, policy="", started=1)
    sent = kinds.ToolAllowed(call="c1", tool="shell.run", digest="1" * 64, effectful=True)
    settled = kinds.ToolSettled(call="c1", outcome="tool-error")
    report.history.commit(lambda _: [NewEvent(data, session="s1") for data in (opened, sent, settled)])
    page = report("--html")
    assert 'class="tracks"' in page
    assert "<title>shell.run: error</title>" in page
    assert "<a " not in page
    assert Elements(page).tags <= TAGS | {"g", "rect"}
    assert "tracks" not in report("--md")
