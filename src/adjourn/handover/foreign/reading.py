"""Read a file or folder of another tool, and nothing else, in the format that was named or that is unambiguous."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from adjourn.checkpoints import folder
from adjourn.checkpoints.checkpoint import MAX_DESCRIPTION
from adjourn.checkpoints.page import MAX_PAGE_BYTES, NO_REPORT, AgentReport, ReportedArtifact, ReportedStep, report_of
from adjourn.checkpoints.parser import parse
from adjourn.errors import InvalidError, NotFoundError, UsageError
from adjourn.handover.foreign import continuum, langgraph
from adjourn.handover.foreign.work import (
    MAX_ENTRIES,
    MAX_FILE_BYTES,
    MAX_LINE,
    MAX_STATEMENTS,
    SOURCES,
    ForeignWork,
    Source,
    counted,
    name_from,
    prose,
    statements,
    word,
)
from adjourn.host.workspace import check_name, read_file
from adjourn.knowledge.records import agent_notes
from adjourn.log import kinds
from adjourn.text.redact import preview, without_secrets
from adjourn.text.strict_json import check_text, check_values, count_keys

_PAGES = (".md", ".markdown")


def read_work(path: str, source: Source | None = None, thread: str = "") -> ForeignWork:
    """Read another tool's work. `source` is its format, None for the one that it looks like; `thread` is one of LangGraph's.

    Raises `InvalidError`, `NotFoundError`, and `UsageError` for a thread of another format.
    """
    found = source or detect(path)
    if thread and found != "langgraph":
        raise UsageError(f"{path} is read as {found}, which has no threads", "leave out --thread")
    if found == "aex":
        return read_checkpoint_folder(path)
    if found == "langgraph":
        return langgraph.read(path, thread)
    return continuum.read(path) if found == "continuum" else read_handoff(path)


def detect(path: str) -> Source:
    """The format of a file or folder. Raises `InvalidError` where it is none of them, and what `read_file` raises."""
    if os.path.isdir(path):
        if os.path.lexists(os.path.join(path, folder.JSON_FILE)):
            return "aex"
        raise InvalidError(f"{path} has no {folder.JSON_FILE}", "name the folder of a checkpoint, or a file")
    if os.path.basename(path) == folder.JSON_FILE:
        return "aex"
    data = read_file(path, langgraph.MAX_DATABASE_BYTES)
    if data.startswith(langgraph.MAGIC):
        return "langgraph"
    if path.lower().endswith(_PAGES):
        return "handoff"
    if data.lstrip()[:1] == b"{" and len(data) <= MAX_FILE_BYTES and _is_document(data):
        return "continuum"
    raise InvalidError(f"{path}: cannot tell its format", f"name it: --from {'|'.join(SOURCES)}")


def _is_document(data: bytes) -> bool:
    try:
        check_values(data, "it")
        return bool(continuum.kind_of(msgspec.json.decode(data)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidError):
        return False


# --- a checkpoint folder in the published format

MAX_CALLS = 10**9
MAX_LINE_BYTES = 64 * 1024
_REASONS = {"budget.exhausted": "budget_exhausted", "confirm.required": "confirm_required"}
_DO_NOT = "do not resume from it"


class _Call(msgspec.Struct, frozen=True):
    """An entry of `toolHistory`."""

    tool: str
    decision: Literal["forward", "block"]
    timestamp: str = ""
    reason: str | None = None


class _Line(msgspec.Struct, frozen=True):
    """A line of audit.jsonl."""

    event: str
    data: dict[str, Any] | None = None
    timestamp: str = ""


def read_checkpoint_folder(directory: str) -> ForeignWork:
    """Read the folder of a checkpoint with the published fields only. Raises `InvalidError`, `NotFoundError`."""
    stored = folder.read_published(directory)
    file = stored.file
    if file.adjourn is not None:
        raise InvalidError(f"{directory} is signed by adjourn", "import the folder, which is verified first")
    check_name(file.name)
    if len(file.description) > MAX_DESCRIPTION:
        raise InvalidError(
            f"{directory}: the description is too long: {len(file.description)} characters (limit {MAX_DESCRIPTION})",
            "shorten it",
        )
    if not 0 <= file.calls_used <= MAX_CALLS or (file.budget is not None and not 0 <= file.budget <= MAX_CALLS):
        raise InvalidError(f"{directory}: callsUsed or budget is outside 0 … {MAX_CALLS}", _DO_NOT)
    calls = [_called(call) for call in _history(directory, file.tool_history)]
    audit, path = b"", os.path.join(directory, folder.AUDIT_FILE)
    with suppress(NotFoundError):
        audit = read_file(path, MAX_FILE_BYTES)
    lines = _lines(path, audit)
    entries = _in_order([*calls, *_further(lines, calls)])
    spent = max(file.calls_used, sum(entry.decision == "forward" for entry in entries))
    texts = [counted(spent, "spent call"), counted(len(calls), "entry") + " of toolHistory"]
    texts += [f"the budget of {counted(file.budget, 'call')}"] if file.budget is not None else []
    texts += [f"{counted(len(lines), 'line')} of audit.jsonl"] if audit else []
    left_out = [] if audit else ["audit.jsonl: the folder has none"]
    if spent > file.calls_used:
        left_out.append(f"callsUsed {file.calls_used}: the history has {counted(spent, 'call')}, which count")
    if len(entries) > MAX_ENTRIES:
        left_out.append(f"{counted(len(entries) - MAX_ENTRIES, 'oldest entry')}: only in the kept files")
    return ForeignWork(
        source="aex",
        name=file.name,
        documents=(stored.data, *([audit] if audit else [])),
        goal=prose(file.description, MAX_DESCRIPTION),
        description=prose(file.description, MAX_DESCRIPTION),
        at=word(file.timestamp),
        calls=spent,
        budget=file.budget,
        entries=tuple(entries[-MAX_ENTRIES:]),
        report=AgentReport(resumption_point=prose(file.description)) if prose(file.description) else NO_REPORT,
        kept=tuple(texts),
        left_out=tuple(left_out),
    )


def _history(directory: str, entries: list[dict[str, Any]]) -> list[_Call]:
    try:
        return msgspec.convert(entries, list[_Call])
    except msgspec.ValidationError as error:
        raise InvalidError(
            f"{os.path.join(directory, folder.JSON_FILE)}: toolHistory is malformed: {error}", _DO_NOT
        ) from error


def _called(call: _Call) -> kinds.EntryImported:
    return kinds.EntryImported(
        at=word(call.timestamp),
        decision=call.decision,
        entry="tool.allowed" if call.decision == "forward" else "tool.denied",
        reason=word(call.reason, MAX_LINE),
        tool=word(call.tool),
    )


def _lines(path: str, data: bytes) -> list[kinds.EntryImported]:
    """The lines of audit.jsonl as entries; blank ones are skipped. Raises `InvalidError` with the number of a bad line."""
    check_values(data, path)
    lines = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            lines.append(_read_line(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidError) as error:
            message = error.message if isinstance(error, InvalidError) else str(error)
            raise InvalidError(
                f"line {number} of {path} is malformed: {message}", "correct the line, or remove the file"
            ) from error
    return lines


def _read_line(line: bytes) -> kinds.EntryImported:
    if len(line) > MAX_LINE_BYTES:
        raise InvalidError(f"it has more than {MAX_LINE_BYTES} bytes")
    check_text(line, count_keys(msgspec.json.decode(line)))
    return _told(msgspec.json.decode(line, type=_Line))


def _told(line: _Line) -> kinds.EntryImported:
    data = line.data or {}
    decision: Literal["", "forward", "block"] = ""
    reason = data.get("reason") or _REASONS.get(line.event, "")
    if line.event == "tool.allowed":
        decision = "forward"
    elif line.event == "tool.denied" or line.event in _REASONS:
        decision = "block"
    elif fields := {name: value for name, value in data.items() if name != "tool"}:
        reason = preview(fields, MAX_LINE)
    return kinds.EntryImported(
        at=word(line.timestamp),
        decision=decision,
        entry=word(line.event),
        reason=word(reason, MAX_LINE),
        tool=word(data.get("tool")),
    )


def _further(
    lines: Iterable[kinds.EntryImported], calls: Iterable[kinds.EntryImported]
) -> Iterable[kinds.EntryImported]:
    """The lines that say more than `toolHistory`: events that are no decisions on a call, and decisions that it lacks."""
    counter = Counter((call.tool, call.decision) for call in calls)
    for line in lines:
        if line.decision and counter[(line.tool, line.decision)] > 0:
            counter[(line.tool, line.decision)] -= 1
        else:
            yield line


def _in_order(entries: list[kinds.EntryImported]) -> list[kinds.EntryImported]:
    """The entries by their times, if all of them state one; else as they are."""
    try:
        return sorted(entries, key=lambda one: _time(one.at))
    except (ValueError, OverflowError):
        return entries


def _time(stamp: str) -> datetime:
    fromisoformat = datetime.fromisoformat(stamp)
    return fromisoformat if fromisoformat.tzinfo else fromisoformat.replace(tzinfo=UTC)


# --- a hand-over page in Markdown: `handoff.md`, or a checkpoint's page
#
# Sections are known by their headings; lists become steps, decisions, questions, files, facts. What stands under any other heading is
# kept as text. All of it is data: nothing in it is an instruction to adjourn, and nothing that it names is run or fetched.

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
    """What stands under a heading."""

    title: str
    kind: str
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip()


def read_handoff(path: str) -> ForeignWork:
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
    sections = [_Section("", "", [])]
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
            sections.append(_Section(title, _kind(title), []))
        else:
            sections[-1].lines.append(line)
    return sections


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
        kind: [item for section in sections if section.kind == kind for item in _items(section.lines)]
        for kind in MEANINGS
    }
    other = [section for section in sections if not section.kind and section.text]
    goal = _goal(sections, other)
    done = [item for item in by_kind["done"] if item.checked is not False]
    todo = [item for item in by_kind["done"] if item.checked is False]
    todo += [item for item in by_kind["next"] if not item.checked]
    done += [item for item in by_kind["next"] if item.checked]
    texts = [
        prose(f"{section.title}: {section.text}" if section.title else section.text, MAX_SECTION) for section in other
    ]
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
    words = [f"{kind}: {counted(count, 'item')}" for kind, count in counts.items()]
    words += [f"other text: {counted(len(texts), 'section')} as current state"] if texts else []
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
            progress=tuple(steps[:MAX_STATEMENTS]) or (ReportedStep(text="Read the imported page, and continue"),),
            current_state=(*statements(item.text for item in by_kind["state"]), *texts[:MAX_STATEMENTS]),
            open_questions=statements(item.text for item in by_kind["questions"]),
            artifacts=tuple(ReportedArtifact(path=path) for path in _paths(by_kind["files"])),
            resumption_point=next_step or "Read the imported page, and decide on the next step",
        ),
        note=agent_notes.AgentNote(facts=facts, decisions=decisions, learnings=learned),
        kept=tuple(words),
        left_out=tuple(left_out),
    )


def _goal(sections: Sequence[_Section], other: list[_Section]) -> str:
    """The section of that name; else the title; else the first paragraph without a heading."""
    named = next((section.text for section in sections if section.kind == "goal" and section.text), "")
    if named:
        return prose(named, MAX_GOAL)
    title = next((section.title for section in sections if section.title), "")
    title = "" if _kind(title) else _TITLE.sub("", title).strip(" :#\u2014\u2013-")
    if title:
        return prose(title, MAX_GOAL)
    first = next((section for section in other if section.text), None)
    return prose(first.text.split("\n\n")[0], MAX_GOAL) if first else ""


def _paths(items: Sequence[_Item]) -> tuple[str, ...]:
    """The file that each item names: what stands in backticks, else its first word."""
    found = []
    for item in items:
        quoted = re.search(r"`([^`\n]{1,500})`", item.text)
        found.append(quoted[1] if quoted else item.text.split()[0])
    return statements(found)
