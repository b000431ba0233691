"""Searches text and files with ripgrep.

Must never: take an error for "nothing found", or decide what is ignored: ripgrep's own `--glob` would list ignored files, which is
why globs are compiled here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from adjourn.code.deadline import Deadline
from adjourn.code.index import ripgrep
from adjourn.code.repository import CodeRepository
from adjourn.errors import InvalidError

MAX_PATTERNS = 5
MAX_LINE = 500
MAX_RESULTS = 10_000
_MAX_CONTEXT = 20
_SECONDS = 30.0
_MAX_PATTERN = 10_000
_MAX_SUBMATCHES = 50
_BEFORE = 60
_ELLIPSIS = "…"


class TextOptions(NamedTuple):
    """Which lines `search_text` finds, how many of them, and how many lines it shows around each."""

    file_type: str | None = None
    case_sensitive: bool = True
    context_lines: int = 0
    max_results: int = 100


_DEFAULTS = TextOptions()


def search_text(
    repository: CodeRepository,
    pattern: str | Sequence[str],
    path: str = ".",
    options: TextOptions = _DEFAULTS,
    *,
    deadline: Deadline | None = None,
) -> dict[str, Any]:
    """Lines that match a regular expression, or several expressions searched at once.

    `max_results` limits the whole answer, not each file; `total_matches` counts the matches beyond it until the deadline.
    """
    deadline = deadline or Deadline(_SECONDS)
    where = repository.existing(path)
    context = _bounded(options.context_lines, 0, _MAX_CONTEXT)
    limit = _bounded(options.max_results, 1, MAX_RESULTS)
    arguments = ["--case-sensitive" if options.case_sensitive else "--ignore-case"]
    if context:
        arguments += ["--context", str(context)]
    if options.file_type:
        arguments += ["--type", options.file_type]

    def search(expression: str) -> dict[str, Any]:
        if not isinstance(expression, str) or not expression or len(expression) > _MAX_PATTERN or "\0" in expression:
            raise InvalidError("invalid pattern", f"give a regular expression of at most {_MAX_PATTERN} characters")
        reader = _MatchReader(repository, limit, context)
        command = [*arguments, "-e", expression]
        return {
            "pattern": expression,
            "path": where or ".",
            **_search(repository.root, command, where, reader, deadline),
        }

    if isinstance(pattern, str):
        return search(pattern)
    patterns = list(dict.fromkeys(pattern))
    if not patterns:
        raise InvalidError("the list of patterns is empty", "give one to five patterns")
    if len(patterns) > MAX_PATTERNS:
        return {
            "error": "too_many_patterns",
            "message": f"too many patterns: {len(patterns)} (limit {MAX_PATTERNS})",
            "provided_patterns": len(patterns),
        }
    with ThreadPoolExecutor(len(patterns)) as threads:
        answers = list(threads.map(search, patterns))
    return {
        "patterns": patterns,
        "path": where or ".",
        "results": dict(zip(patterns, answers, strict=True)),
        "total_patterns": len(patterns),
    }


def search_files(
    repository: CodeRepository,
    pattern: str,
    path: str = ".",
    *,
    file_type: str | None = None,
    deadline: Deadline | None = None,
) -> dict[str, Any]:
    """Files by a glob such as `*.py` or `src/**/test_*`, relative to the root."""
    where = repository.existing(path)
    wanted = compile_glob(pattern)
    options = ["--sort=path", *(("--type", file_type) if file_type else ())]
    paths = ripgrep.files(options, [where], cwd=repository.root, deadline=deadline or Deadline())
    matching = [file for file in paths if wanted.fullmatch(file)]
    return {"pattern": pattern, "path": where or ".", "files": matching, "total_files": len(matching)}


def _bounded(value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidError(f"{value!r} is not a number", f"give a number from {least} to {most}")
    return max(least, min(value, most))


def _search(root: str, arguments: list[str], where: str, reader: _MatchReader, deadline: Deadline) -> dict[str, Any]:
    for record in ripgrep.records(arguments, [where], cwd=root, deadline=deadline, enough=reader.enough):
        reader.take(record)
    if not reader.complete and not deadline.expired():
        reader.finish(ripgrep.count(arguments, [where], cwd=root, deadline=deadline))
    reader.matches.sort(key=lambda match: (match["file"], match["line_number"]))
    answer: dict[str, Any] = {"matches": reader.matches, "total_matches": reader.total}
    if reader.total > len(reader.matches):
        answer["returned_matches"] = len(reader.matches)
    if reader.warnings:
        answer["warnings"] = reader.warnings
    if not reader.complete:
        answer["partial"] = "timed out: there may be more"
    return answer


class _MatchReader:
    """Turns rg's records into matches, with the lines around each."""

    def __init__(self, repository: CodeRepository, limit: int, context: int) -> None:
        self.matches: list[dict[str, Any]] = []
        self.total = 0
        self.warnings: list[str] = []
        self.complete = False
        self._repository = repository
        self._limit = limit
        self._context = context
        self._done = False
        self._capped = False
        self._file = ""
        self._before: list[dict[str, Any]] = []

    def enough(self) -> bool:
        """Whether no further record is needed, context lines of the last match included."""
        return self._done

    def finish(self, total: int) -> None:
        """Note that the search is complete, with so many matching lines."""
        self.total = max(total, self.total)
        self.complete = True

    def take(self, record: dict[str, Any]) -> None:
        kind, data = record["type"], record["data"]
        if kind == "match":
            self.total += 1
            if self.total <= self._limit:
                self._add(data)
            self._done = self.total > self._limit or (self.total == self._limit and not self._context)
        elif kind == "context":
            self._beside(data)
        elif kind == "begin":
            self._file = ripgrep.path_of(data)
            self._before = []
        elif kind == "end":
            self._done = self.total >= self._limit
            self._capped |= data["stats"]["matched_lines"] == ripgrep.MAX_OF_A_FILE
        elif kind == "warnings":
            self.warnings = data
        elif kind == "summary":
            self.complete = not self._capped
            self.total = data["stats"]["matched_lines"]

    def _add(self, data: dict[str, Any]) -> None:
        spans = [(span["start"], span["end"]) for span in data["submatches"][:_MAX_SUBMATCHES]]
        if "lines" in data:
            line = ripgrep.decoded(data["lines"]).rstrip(b"\r\n")
            content, submatches, cut = _cut_line(line, 0, spans, length=len(line))
        else:
            content, submatches, cut = self._far_line(data, spans)
        match: dict[str, Any] = {
            "file": self._file,
            "line_number": data["line_number"],
            "line_content": content,
            "submatches": submatches,
        }
        if cut:
            match["line_truncated"] = True
        if self._before:
            match["context_before"], self._before = self._before, []
        self.matches.append(match)

    def _beside(self, data: dict[str, Any]) -> None:
        """Add a context line: to the previous match if near enough, else to the next one."""
        lines = data.get("lines")
        text = ripgrep.decoded(lines).rstrip(b"\r\n").decode("utf-8", "replace")[:MAX_LINE] if lines else _ELLIPSIS
        entry = {"line_number": data["line_number"], "line_content": text}
        last = self.matches[-1] if self.matches else None
        if last and last["file"] == self._file and entry["line_number"] - last["line_number"] <= self._context:
            last.setdefault("context_after", []).append(entry)
        else:
            self._before.append(entry)

    def _far_line(self, data: dict[str, Any], spans: list[tuple[int, int]]) -> tuple[str, list[dict[str, Any]], bool]:
        """Read only the part around the first match of a line too long to send."""
        first = spans[0][0] if spans else 0
        start = max(first - 4 * _BEFORE, 0)
        try:
            with open(self._repository.absolute(ripgrep.path_of(data)), "rb") as file:
                file.seek(data["absolute_offset"] + start)
                line = file.read(4 * MAX_LINE).split(b"\n", 1)[0]
        except OSError:
            line = b""
        return _cut_line(line, start, spans, length=start + len(line) + 1)


def _cut_line(
    line: bytes, offset: int, spans: list[tuple[int, int]], *, length: int
) -> tuple[str, list[dict[str, Any]], bool]:
    """The excerpt of a line to show (`line` starts at `offset`), its matches as character offsets, and whether it is cut."""
    start = 0
    if len(line) > MAX_LINE:
        first = spans[0][0] - offset if spans else 0
        start = max(min(first - _BEFORE, len(line) - MAX_LINE), 0)
        while start < len(line) and line[start] & 0xC0 == 0x80:  # not in the middle of a character
            start += 1
    part = line[start : start + MAX_LINE]
    lead = _ELLIPSIS if offset + start else ""
    cut = bool(lead) or offset + start + len(part) < length
    submatches = []
    for begin, end in spans:
        low, high = begin - offset - start, min(end - offset - start, len(part))
        if 0 <= low <= high:
            before = lead + part[:low].decode("utf-8", "replace")
            text = part[low:high].decode("utf-8", "replace")
            submatches.append({"match": text, "start": len(before), "end": len(before) + len(text)})
    content = lead + part.decode("utf-8", "replace")
    return (content + _ELLIPSIS if offset + start + len(part) < length else content), submatches, cut


_MAX_GLOB = 1_000


def compile_glob(glob: str) -> re.Pattern[str]:
    """A pattern for `fullmatch` on a relative path. A glob without `/` matches the file name in any folder.

    `*` and `?` stay in one folder, `**` does not, `[ab]` and `{one,two}` choose. `InvalidError` where brackets are not closed.
    """
    if not glob or len(glob) > _MAX_GLOB or "\0" in glob:
        raise InvalidError(f"invalid glob: {glob[:50]!r}", "give a glob such as *.py")
    plain = glob.removeprefix("/")
    pattern = "" if "/" in glob else "(?:.*/)?"
    place = depth = 0
    while place < len(plain):
        part, place = _glob_part(plain, place, depth)
        depth += (part == "(?:") - (part == ")" and depth > 0)
        pattern += part
    if depth:
        raise InvalidError(f"the glob {glob!r} has an unclosed brace", "close the brace")
    return re.compile(pattern, re.DOTALL)


def _glob_part(glob: str, place: int, depth: int) -> tuple[str, int]:
    """One element of a glob as a regular expression, and the offset of the next."""
    char = glob[place]
    if glob.startswith("**/", place):
        return "(?:.*/)?", place + 3
    if glob.startswith("**", place):
        return ".*", place + 2
    if char == "[":
        close = glob.find("]", place + 2 + glob.startswith("!", place + 1))
        if close < 0:
            raise InvalidError(
                f"the glob {glob!r} has an unclosed bracket", "close the bracket, or write [[] for a literal one"
            )
        inner = glob[place + 1 : close]
        negated = inner[0] in "!^"
        return (f"[{'^' if negated else ''}{re.escape(inner[negated:]).replace(chr(92) + '-', '-')}]", close + 1)
    if char == "\\" and place + 1 < len(glob):
        return re.escape(glob[place + 1]), place + 2
    special = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")" if depth else r"\}", ",": "|" if depth else ","}
    return special.get(char) or re.escape(char), place + 1
