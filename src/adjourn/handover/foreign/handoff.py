"""A hand-over page in Markdown that an agent or a person wrote: `handoff.md`, or a checkpoint's page.

Sections are known by their headings; lists become steps, decisions, questions, files, facts. What stands under any other heading is
kept as text. All of it is data: nothing in it is an instruction to adjourn.

Owns: which headings mean what. Must never: run, follow or fetch anything that a page names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from adjourn.checkpoints import MAX_PAGE_BYTES, AgentReport, ReportedArtifact, ReportedStep, parse, report_of
from adjourn.errors import InvalidError
from adjourn.handover.foreign.work import MAX_STATEMENTS, ForeignWork, counted, name_from, prose, statements
from adjourn.host import read_file
from adjourn.knowledge.records import agent_notes
from adjourn.text import without_secrets

MAX_LINES = 20_000
MAX_GOAL, MAX_SECTION = 4000, 3000
MEANINGS = {
    "goal": ("goal", "goals", "mission", "objective", "task", "purpose", "what we are doing"),
    "next": (
        "next", "next step", "next steps", "todo", "to do", "remaining", "remaining work", "what is left",
        "resumption point", "plan", "action items", "pending",
    ),
    "done": ("done", "completed", "accomplished", "what was done", "what is done", "work done", "finished", "progress", "status"),
    "decisions": ("decision", "decisions", "key decisions", "decisions made", "design decisions"),
    "questions": ("question", "questions", "open questions", "blockers", "blocked", "open issues", "unresolved",
                  "open questions for human"),
    "files": ("files", "key files", "files changed", "changed files", "modified files", "artifacts",
              "artifacts produced", "relevant files"),
    "state": ("state", "current state", "context", "background", "summary", "where we are"),
    "facts": ("facts", "findings", "learnings", "lessons", "lessons learned", "what we learned", "notes"),
    "constraints": ("constraints", "rules", "invariants", "do not", "warnings", "gotchas", "pitfalls", "failed approaches",
                    "what did not work"),
}  # fmt: skip
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_ITEM = re.compile(r"[ \t]{0,8}(?:[-*+]|\d{1,4}[.)])[ \t]+(?:\[([ xX])\][ \t]+)?(.*)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_KINDS = {heading: kind for kind, headings in MEANINGS.items() for heading in headings}
_TITLE = re.compile(r"hand-?\s?(?:off|over)(?:\s+(?:document|notes?|page))?", re.IGNORECASE)


class _Item(NamedTuple):
    """An item of a list, or a paragraph; `checked` is None without a box."""

    text: str
    checked: bool | None = None


class _Section(NamedTuple):
    """What stands under a heading: its lines as text, and its items."""

    title: str
    kind: str
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip()

    def items(self) -> list[_Item]:
        return _items(self.lines)


def read(path: str) -> ForeignWork:
    """Read a Markdown page. Raises `InvalidError`, `NotFoundError`."""
    data = read_file(path, MAX_PAGE_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidError(f"{path} is not UTF-8 text: {error.reason}", "save it as UTF-8") from error
    if not text.strip():
        raise InvalidError(f"{path} is empty", "name a page with text")
    document = (without_secrets(text).encode(),)
    stem = os.path.splitext(os.path.basename(path))[0]
    page = parse(text, path).page if text.startswith("# Checkpoint: ") else None
    if page is not None:
        return ForeignWork(
            source="handoff",
            name=name_from(stem, "handoff"),
            documents=document,
            goal=prose(page.mission, MAX_GOAL),
            description=prose(page.resumption_point),
            report=report_of(page),
            kept=("a checkpoint's page: all of its sections",),
            left_out=("its machine data and its iteration counts",),
        )
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        raise InvalidError(f"{path} has more than {MAX_LINES:,} lines", "shorten it")
    return _work(_sections(lines), name_from(stem, "handoff"), document)


def _sections(lines: Sequence[str]) -> list[_Section]:
    """The sections of a page. A heading inside a code fence is none."""
    found = [_Section("", "", [])]
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
        heading = None if fence or mark else _HEADING.fullmatch(line)
        if heading:
            title = heading[2].rstrip(" \t#")
            found.append(_Section(title, _kind(title), []))
        else:
            found[-1].lines.append(line)
    return found


def _kind(heading: str) -> str:
    """What a heading means; "" for one that is not known. Numbers, emoji and punctuation around it do not count."""
    plain = heading.lower().replace("\u2019", "'").replace("what's", "what is").replace("didn't", "did not")
    words = re.sub(r"[^\w\s]", " ", plain).split()
    while words and not words[0].isalpha():
        words.pop(0)
    return _KINDS.get(" ".join(words), "")


def _items(lines: Sequence[str]) -> list[_Item]:
    """The items of the lists and the paragraphs among the lines; a line that continues an item belongs to it."""
    found: list[tuple[list[str], bool | None]] = []
    fresh = True
    for line in lines:
        item = _ITEM.fullmatch(line)
        if item:
            found.append(([item[2]], item[1].lower() == "x" if item[1] else None))
            fresh = False
        elif not line.strip():
            fresh = True
        elif fresh:
            found.append(([line.strip()], None))
            fresh = False
        else:
            found[-1][0].append(line.strip())
    return [_Item(text, checked) for parts, checked in found if (text := prose("\n".join(parts)))]


def _work(sections: Sequence[_Section], name: str, document: tuple[bytes, ...]) -> ForeignWork:
    by_kind = {
        kind: [item for one in sections if one.kind == kind for item in one.items()] for kind in MEANINGS
    }
    other = [one for one in sections if not one.kind and one.text]
    goal = _goal(sections, other)
    done = [item for item in by_kind["done"] if item.checked is not False]
    todo = [item for item in by_kind["done"] if item.checked is False]
    todo += [item for item in by_kind["next"] if not item.checked]
    done += [item for item in by_kind["next"] if item.checked]
    rest = [prose(f"{one.title}: {one.text}" if one.title else one.text, MAX_SECTION) for one in other]
    decisions = tuple(
        agent_notes.NotedDecision(decision=text, because="stated in the imported page", status="tentative")
        for text in statements(item.text for item in by_kind["decisions"])
    )
    learned = tuple(
        agent_notes.NotedLearning(content=text, type="constraint")
        for text in statements(item.text for item in by_kind["constraints"])
    )
    facts = statements(item.text for item in by_kind["facts"])
    next_step = todo[0].text if todo else ""
    steps = [ReportedStep(text=item.text, status="done") for item in done]
    steps += [ReportedStep(text=item.text) for item in todo]
    counts = {kind: len(items) for kind, items in by_kind.items() if items}
    kept = [f"{kind}: {counted(count, 'item')}" for kind, count in counts.items()]
    kept += [f"other text: {counted(len(rest), 'section')} as current state"] if rest else []
    left_out = ["links, images and files that the page names: only their names are kept"]
    if any(count > MAX_STATEMENTS for count in counts.values()):
        left_out.append(f"items beyond {MAX_STATEMENTS} of a kind: only in the document")
    return ForeignWork(
        source="handoff",
        name=name,
        documents=document,
        goal=goal,
        description=next_step,
        report=AgentReport(
            mission=goal or "Continue the work of the imported page",
            progress=tuple(steps[:MAX_STATEMENTS])
            or (ReportedStep(text="Read the imported page, and continue"),),
            current_state=(*statements(item.text for item in by_kind["state"]), *rest[:MAX_STATEMENTS]),
            open_questions=statements(item.text for item in by_kind["questions"]),
            artifacts=tuple(ReportedArtifact(path=path) for path in _paths(by_kind["files"])),
            resumption_point=next_step or "Read the imported page, and decide on the next step",
        ),
        note=agent_notes.AgentNote(facts=facts, decisions=decisions, learnings=learned),
        kept=tuple(kept),
        left_out=tuple(left_out),
    )


def _goal(sections: Sequence[_Section], other: list[_Section]) -> str:
    """The section of that name; else the title; else the first paragraph without a heading."""
    named = next((one.text for one in sections if one.kind == "goal" and one.text), "")
    if named:
        return prose(named, MAX_GOAL)
    title = next((one.title for one in sections if one.title), "")
    title = "" if _kind(title) else _TITLE.sub("", title).strip(" :#\u2014\u2013-")
    if title:
        return prose(title, MAX_GOAL)
    first = next((one for one in other if one.text), None)
    return prose(first.text.split("\n\n")[0], MAX_GOAL) if first else ""


def _paths(items: Sequence[_Item]) -> tuple[str, ...]:
    """The file that each item names: what stands in backticks, else its first word."""
    found = []
    for item in items:
        quoted = re.search(r"`([^`\n]{1,500})`", item.text)
        found.append(quoted[1] if quoted else item.text.split()[0])
    return statements(found)
