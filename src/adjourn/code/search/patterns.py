"""Searches code by its structure: a pattern such as `$LOCK.acquire()` matches syntax trees, not lines (ast-grep's patterns).

The library has no limits of its own, so it runs in another process: a file or a pattern that hangs or crashes it ends only that one.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import resource
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any, Self

import msgspec

from adjourn.code.deadline import Deadline
from adjourn.code.index import ripgrep
from adjourn.code.index.analysis import MAX_PARSED, as_utf8, line_of
from adjourn.code.index.languages import language_of
from adjourn.code.index.workers import read, write
from adjourn.code.repository import CodeRepository
from adjourn.code.search.text import MAX_RESULTS, TextOptions
from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.host import executables
from adjourn.host.executables import outside

MAX_PATTERN = 1_000
MAX_SECONDS = 20.0
_FILE_SECONDS = 5.0
_MAX_MEMORY = 2 << 30
_MAX_LINE = 500
_LANGUAGES = {name: name for name in (
    "python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp", "csharp", "php", "ruby", "html", "css", "json",
    "bash", "swift", "kotlin", "scala", "lua", "elixir",
)} | {"terraform": "hcl"}  # fmt: skip
"""The languages that have patterns, and the library's names of them."""
_WORD = re.compile(r"(?<![\w$])[^\W\d]\w*")
_REASON = re.compile(r"^\s*\d+: (.+)$", re.MULTILINE)


def search_pattern(
    repository: CodeRepository, pattern: str, path: str, options: TextOptions, deadline: Deadline
) -> dict[str, Any]:
    """Pieces of code that match a pattern: `$X` is one node, `$$$X` any number; the same name twice is the same code.

    Of the options, `file_type` and `max_results` count. Raises `InvalidError` for what is no pattern in any language of the files,
    `NotFoundError` without the library.
    """
    if not pattern.strip() or len(pattern) > MAX_PATTERN or "\0" in pattern:
        raise InvalidError("invalid pattern", f"give a piece of code of at most {MAX_PATTERN} characters")
    if importlib.util.find_spec("ast_grep_py") is None:
        raise NotFoundError("ast-grep-py is not installed", "pip install 'adjourn[code]'")
    deadline = deadline.at_most(MAX_SECONDS)
    where, limit = repository.existing(path), max(1, min(options.max_results, MAX_RESULTS))
    paths = _candidates(repository, pattern, where, options.file_type, deadline)
    answer: dict[str, Any] = {"pattern": pattern, "path": where or ".", "matches": []}
    matches, problems, searched = answer["matches"], {}, 0
    with _Matcher(repository.root) as matcher:
        for file in paths:
            if deadline.expired() or len(matches) > limit:
                break
            found = _in_file(repository, matcher, file, pattern, deadline)
            searched += isinstance(found, list)
            if isinstance(found, str):
                problems[language_of(file)] = found
            else:
                matches += found
    if problems and not searched:
        raise InvalidError(
            f"not a pattern: {'; '.join(problems.values())}", "write one expression or statement, as in the code"
        )
    answer["total_matches"] = len(matches)
    if len(matches) > limit:
        answer |= {"matches": matches[:limit], "returned_matches": limit}
    if partial := _why_partial(matches, limit, deadline):
        answer["partial"] = partial
    if matcher.skipped:
        answer["warnings"] = [f"not searched, too slow or too deep: {path}" for path in matcher.skipped[:10]]
    return answer


def _why_partial(matches: list[dict[str, Any]], limit: int, deadline: Deadline) -> str:
    if len(matches) > limit:
        return "more were found than asked for"
    if deadline.expired():
        return "timed out: there may be more"
    is_cut = ripgrep.MAX_OF_A_FILE in Counter(match["file"] for match in matches).values()
    return f"of a file, the first {ripgrep.MAX_OF_A_FILE} matches are found" if is_cut else ""


def _candidates(
    repository: CodeRepository, pattern: str, where: str, file_type: str | None, deadline: Deadline
) -> list[str]:
    """The files of languages with patterns that have the longest word of the pattern, in order."""
    options = ["--sort=path", *(("--type", file_type) if file_type else ())]
    word = max(_WORD.findall(pattern), key=len, default="")
    if word:
        paths = ripgrep.files_with(
            [*options, "--fixed-strings", "-e", word], [where], cwd=repository.root, deadline=deadline
        )
    else:
        paths = ripgrep.files(options, [where], cwd=repository.root, deadline=deadline)
    return [path for path in paths if language_of(path) in _LANGUAGES]


def _in_file(
    repository: CodeRepository, matcher: _Matcher, path: str, pattern: str, deadline: Deadline
) -> list[dict[str, Any]] | str:
    """The matches in a file, or why the pattern is none in its language."""
    try:
        data = as_utf8(repository.read(path, MAX_PARSED))
    except AdjournError:  # too long, or gone
        return []
    answer = matcher.ask(path, _PatternRequest(data or b"", _LANGUAGES[language_of(path)], pattern), deadline)
    if isinstance(answer, str):
        return answer
    return [_match(path, data or b"", place) for place in answer]


def _match(path: str, data: bytes, place: _Place) -> dict[str, Any]:
    line, column, end_line, end_column = place
    content = line_of(data, line, _MAX_LINE)
    end = end_column if end_line == line else len(content)
    shown = {"match": content[column:end], "start": column, "end": min(end, len(content))}
    match: dict[str, Any] = {"file": path, "line_number": line, "line_content": content, "submatches": [shown]}
    return match if end_line == line else match | {"end_line_number": end_line}


# --- the process that has the library

_Place = tuple[int, int, int, int]


class _PatternRequest(msgspec.Struct, frozen=True, array_like=True):
    """A file's text in UTF-8, the library's name of its language, and the pattern."""

    data: bytes
    language: str
    pattern: str

    def perform(self) -> list[_Place] | str:
        """First line and column (from 0), last line and column of each match; or why the pattern is none."""
        root = importlib.import_module("ast_grep_py").SgRoot(self.data.decode("utf-8", "replace"), self.language).root()
        try:
            ranges = [node.range() for node in root.find_all(pattern=self.pattern)[: ripgrep.MAX_OF_A_FILE]]
        except RuntimeError as error:
            reasons: list[str] = _REASON.findall(str(error).partition("Stack backtrace")[0])
            return reasons[-1] if reasons else "it cannot be parsed"
        return [(at.start.line + 1, at.start.column, at.end.line + 1, at.end.column) for at in ranges]


class _Matcher:
    """Asks the process about one file after another; it is replaced when it ends, or is late. `skipped` are the files it was late with."""

    def __init__(self, workspace: str) -> None:
        self.skipped: list[str] = []
        self._workspace = workspace
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def ask(self, path: str, request: _PatternRequest, deadline: Deadline) -> list[_Place] | str:
        process = self._process = self._process or self._started()
        remaining = deadline.remaining()
        timer = threading.Timer(_FILE_SECONDS if remaining is None else min(remaining, _FILE_SECONDS), process.kill)
        timer.start()
        try:
            data = _exchange(process, request)
        finally:
            timer.cancel()
        if data is None:
            self._end()
            if not deadline.expired():
                self.skipped.append(path)
            return []
        answer: list[_Place] | str = msgspec.msgpack.decode(data, type=list[_Place] | str)
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            executables.python_command("-m", "adjourn.code.search.patterns"),
            env=outside(os.environ, self._workspace),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MAX_MEMORY, _MAX_MEMORY))
        return process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _exchange(process: subprocess.Popen[bytes], request: _PatternRequest) -> bytes | None:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        write(process.stdin, request)
        return read(process.stdout)
    except OSError:
        return None


def _requests(pipe: IO[bytes]) -> Iterator[_PatternRequest]:
    while (data := read(pipe)) is not None:
        yield msgspec.msgpack.decode(data, type=_PatternRequest)


def main() -> None:
    for request in _requests(sys.stdin.buffer):
        write(sys.stdout.buffer, request.perform())


if __name__ == "__main__":
    main()
