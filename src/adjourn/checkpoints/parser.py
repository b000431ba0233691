"""Parsing the page of a checkpoint (see `page`), which a person may have edited.

Must never: raise, or access a file.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from adjourn.checkpoints.page import (
    ARTIFACTS,
    CONTROL,
    MAX_PAGE_BYTES,
    MISSION,
    NOTHING,
    PROGRESS,
    QUESTIONS,
    RESUMPTION,
    SECTIONS,
    STATE,
    STATS,
    WORDS,
    Artifact,
    ChecklistItem,
    Other,
    Page,
    armed,
)
from adjourn.findings import Finding, Span
from adjourn.log.canonical_json import digest

_ALSO_READ = {"Open Questions": QUESTIONS}

_TITLE = re.compile(r"# Checkpoint: (\d{4}-\d\d-\d\d \d\d:\d\d) UTC")
_COMMENT = re.compile(r"<!-- checkpoint (\{.*\}) -->")
_WORDS_BEGIN, _WORDS_END = WORDS.split("{}")
_ITEM = r"(?s)\[([ xX])\] ?(.*)"
_NOTED = r"(?s)(.+?) \(((?:[^()\\]|\\.)*)\)"
_MAX_DIGITS = 15
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")

HELP = {
    "AEX300": "write `# Checkpoint: YYYY-MM-DD HH:MM UTC` as the first line",
    "AEX301": "add the section, or take the page from `adjourn checkpoint write`",
    "AEX302": "merge the two sections",
    "AEX303": "write something below the heading",
    "AEX304": "write `- text`, one a line",
    "AEX305": "write `- [x] text (note)` or `- [ ] text (note)`",
    "AEX306": "write `- Iterations used: N`, `- Budget remaining: N`, `- Session duration: N minutes`",
    "AEX307": "leave the comment as it was, or remove it whole",
    "AEX308": "nothing to do: the edited text is used",
    "AEX309": "save the page as UTF-8 text of at most 1 MiB",
}
"""Findings about a page, and the remedy of each."""


class PageReading(msgspec.Struct, frozen=True, kw_only=True):
    """The page (None if a finding is an error), the findings, and whether the page was edited since it was written."""

    page: Page | None
    findings: tuple[Finding, ...]
    edited: bool = False


def parse(data: bytes | str, source: str = "") -> PageReading:
    """Parse a page, and find its errors. `source` is its path, for the findings. Never raises."""
    reader = _PageReader(source)
    try:
        raw = data.encode() if isinstance(data, str) else data
        text = raw.decode().replace("\r\n", "\n")
    except UnicodeError:
        raw, text = b"", "\0"
    if len(raw) > MAX_PAGE_BYTES or CONTROL.search(text):
        reader.report("AEX309", "the page is not text, or too long", 0)
        return PageReading(page=None, findings=tuple(reader.findings))
    return reader.read(text)


class _PageReader:
    """Parses one page. What cannot be parsed leaves a finding."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.findings: list[Finding] = []

    def report(self, code: str, message: str, line: int, severity: Literal["error", "warning"] = "error") -> None:
        span = Span(line, 1, 0) if line else Span()
        self.findings.append(
            Finding(code=code, message=message, severity=severity, source=self.source, span=span, help=HELP[code])
        )

    def read(self, text: str) -> PageReading:
        lines = text.split("\n")
        machine, edited, end = self.machine(lines)
        lines = lines[:end]
        title = _TITLE.fullmatch(lines[0].rstrip()) if lines else None
        time = _time(title[1]) if title else None
        if time is None:
            self.report("AEX300", "the first line is not a checkpoint's title", 1)
        second = lines[1].rstrip() if len(lines) > 1 else ""
        named = second.removeprefix(_WORDS_BEGIN).removesuffix(_WORDS_END)
        is_named = bool(named) and second == _WORDS_BEGIN + named + _WORDS_END
        sections, others = self.sections(lines, begin=2 if is_named else 1)
        page = self.page(time or 0, sections, others, machine)
        if page is not None and is_named and named.strip():
            page = msgspec.structs.replace(page, by=named.strip())
        if any(finding.severity == "error" for finding in self.findings):
            page = None
        return PageReading(page=page, findings=tuple(self.findings), edited=edited)

    def machine(self, lines: list[str]) -> tuple[dict[str, Any] | UnsetType, bool, int]:
        """The data of the comment, whether the text above it was edited, and the line where that text ends."""
        last = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].strip()), 0)
        comment = _COMMENT.fullmatch(lines[last].strip())
        if comment is None:
            return UNSET, False, len(lines)
        above = "\n".join(lines[:last]) + "\n"
        try:
            machine = msgspec.json.decode(comment[1], type=dict[str, Any])
            was = machine.pop("text", None)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.report("AEX307", "the comment at the end is not what adjourn writes", last + 1)
            return UNSET, True, last
        edited = was != digest(above.encode())
        if edited:
            self.report("AEX308", "the page was edited since it was written", 0, "warning")
        return machine, edited, last

    def sections(self, lines: list[str], begin: int) -> tuple[dict[str, tuple[int, list[str]]], list[Other]]:
        """The sections of a page by title, each with the line of its heading, and further sections. They begin at line `begin`."""
        sections: dict[str, tuple[int, list[str]]] = {}
        others: list[Other] = []
        after, content = "", list[str]()
        other_lines = _OtherLines(others)
        other_lines.begin("", None)
        for number, line in enumerate(lines[begin:], begin + 1):
            if line.startswith(("## ", "# ")):
                title = line[3:].strip() if line.startswith("## ") else ""
                title = _ALSO_READ.get(title, title)
                other_lines.end()
                if title not in SECTIONS:
                    other_lines.begin(after, line)
                    continue
                if title in sections:
                    self.report("AEX302", f"there is a second section {title!r}", number)
                after, content = title, []
                sections[title] = (number, content)
            elif other_lines.open:
                other_lines.lines.append(line)
            else:
                content.append(line)
        other_lines.end()
        return sections, others

    def page(
        self,
        time: int,
        sections: dict[str, tuple[int, list[str]]],
        others: list[Other],
        machine: dict[str, Any] | UnsetType,
    ) -> Page | None:
        for title in SECTIONS:
            if title not in sections and title not in (QUESTIONS, ARTIFACTS):
                self.report("AEX301", f"the section {title!r} is missing", 0)
        empty: tuple[int, list[str]] = (0, [])
        parts: dict[str, Any] = {
            "mission": self.paragraph(MISSION, *sections.get(MISSION, empty)),
            "progress": self.progress(*sections.get(PROGRESS, empty)),
            "current_state": self.texts(*sections.get(STATE, empty)),
            "open_questions": self.texts(*sections.get(QUESTIONS, empty)),
            "artifacts": self.artifacts(*sections.get(ARTIFACTS, empty)),
            "resumption_point": self.paragraph(RESUMPTION, *sections.get(RESUMPTION, empty)),
            **self.stats(*sections.get(STATS, empty)),
        }
        if any(finding.severity == "error" for finding in self.findings):
            return None
        return Page(time=time, **parts, others=tuple(others), machine=machine)

    def paragraph(self, title: str, heading: int, lines: list[str]) -> str:
        text = "\n".join(armed(line).removeprefix("\\") for line in lines).strip()
        if heading and not text:
            self.report("AEX303", f"the section {title!r} is empty", heading)
        return text

    def bullets(self, heading: int, lines: list[str]) -> list[tuple[int, str]]:
        """The bullets of a section, still escaped, each with its line."""
        bullets: list[tuple[int, str]] = []
        goes_on = False
        for number, line in enumerate(lines, heading + 1):
            if goes_on:
                at, content = bullets[-1]
                bullets[-1] = (at, f"{content[:-1]}\n{line[2:] if line.startswith('  ') else line.lstrip(' ')}")
            elif line.startswith(("- ", "* ")):
                bullets.append((number, line[2:].strip()))
            elif line.strip():
                self.report("AEX304", f"not a bullet: {line.strip()[:60]!r}", number)
                continue
            else:
                continue
            goes_on = _ends_open(bullets[-1][1])
        return [(at, content.strip()) for at, content in bullets if content.strip()]

    def texts(self, heading: int, lines: list[str]) -> tuple[str, ...]:
        bullets = self.bullets(heading, lines)
        if [content for _, content in bullets] == ["None"]:
            return ()
        return tuple(_text(content) for _, content in bullets)

    def progress(self, heading: int, lines: list[str]) -> tuple[ChecklistItem, ...]:
        steps = []
        for number, content in self.bullets(heading, lines):
            item = re.fullmatch(_ITEM, content)
            if item is None or not item[2].strip():
                self.report("AEX305", f"not an item of a checklist: {content[:60]!r}", number)
                continue
            text, note = _split_note(item[2].strip())
            begun = note.startswith("in progress")
            if begun and item[1] != " ":
                self.report("AEX305", f"an item is done and in progress: {text[:60]!r}", number)
                continue
            status: Literal["done", "in_progress", "pending"] = "in_progress" if begun else "pending"
            steps.append(ChecklistItem(text=text, note=note, status="done" if item[1] != " " else status))
        if heading and not steps and not self.findings:
            self.report("AEX303", f"the section {PROGRESS!r} is empty", heading)
        return tuple(steps)

    def artifacts(self, heading: int, lines: list[str]) -> tuple[Artifact, ...]:
        bullets = [content for _, content in self.bullets(heading, lines)]
        if bullets == ["None"]:
            return ()
        return tuple(Artifact(path=path, note=note) for path, note in map(_split_note, bullets))

    def stats(self, heading: int, lines: list[str]) -> dict[str, Any]:
        names = {
            "Iterations used": "iterations_used",
            "Budget remaining": "budget_remaining",
            "Iterations used in this session": "session_used",
            "Budget remaining in this session": "session_remaining",
            "Session duration": "duration",
        }
        stats: dict[str, Any] = {}
        for number, content in self.bullets(heading, lines):
            title, _, value = content.partition(": ")
            count, blank, unit = value.partition(" ")
            fits = unit in ("minute", "minutes") if title == "Session duration" else not blank
            if title in names and fits and count.isdecimal() and len(count) <= _MAX_DIGITS:
                stats[names[title]] = int(count)
            else:
                self.report("AEX306", f"not a number of the session: {content[:60]!r}", number)
        for title, name in names.items():
            if heading and name in ("iterations_used", "duration") and name not in stats:
                self.report("AEX306", f"`{title}` is missing", heading)
        return stats


class _OtherLines:
    """Collects the lines of further sections."""

    def __init__(self, others: list[Other]) -> None:
        self.others = others
        self.open = False
        self.after = ""
        self.lines: list[str] = []

    def begin(self, after: str, heading: str | None) -> None:
        self.open, self.after, self.lines = True, after, [] if heading is None else [heading]

    def end(self) -> None:
        if self.open and any(line.strip() for line in self.lines):
            while not self.lines[-1].strip():
                self.lines.pop()
            self.others.append(Other(after=self.after, lines=tuple(self.lines)))
        self.open = False


def _time(stamp: str) -> int | None:
    try:
        return int(datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        return None


def _ends_open(content: str) -> bool:
    """Whether a line ends with an unpaired backslash: the text continues on the next line."""
    return (len(content) - len(content.rstrip("\\"))) % 2 == 1


def _text(content: str) -> str:
    return content[1:] if content != "None" and NOTHING.fullmatch(content) else _ESCAPED.sub(r"\1", content)


def _split_note(content: str) -> tuple[str, str]:
    noted = re.fullmatch(_NOTED, content)
    return (_text(noted[1]), _text(noted[2])) if noted else (_text(content), "")
