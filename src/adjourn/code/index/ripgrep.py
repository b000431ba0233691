"""Runs ripgrep: its command line, and its answers: matches, "nothing found", and errors with their reason.

Must never: let a pattern or a path be read as an option, hold more of a line than is shown, or leave a process behind.
"""

from __future__ import annotations

import base64
import os
import re
import resource
import subprocess
import sysconfig
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import IO, Any

import msgspec

from adjourn.code.deadline import Deadline
from adjourn.code.repository import as_text, native
from adjourn.errors import InvalidError, NotFoundError
from adjourn.host.executables import find, for_others, outside

MAX_RECORD = 1 << 16
"""Bytes of one record of rg that are decoded as JSON; longer ones are read for their line number only."""
MAX_OF_A_FILE = 1_000
_CAPPED = b'"matched_lines":%d,' % MAX_OF_A_FILE
_MAX_REASON = 4_000
_READ = 1 << 16
_MAX_DRAINED = 256 << 10
"""How much is read for the sake of the summary; beyond it, counting is quicker."""
_MAX_MEMORY = 1 << 30
_FAILED = 2
_NUMBER = re.compile(rb'"line_number":(\d+),"absolute_offset":(\d+),"submatches":\[')
_SPAN = re.compile(rb'"start":(\d+),"end":(\d+)\}')
_HEAD = re.compile(rb'\{"type":"(\w+)","data":\{"path":(\{"(?:text|bytes)":"(?:[^"\\]|\\.)*"\})')
# `--no-require-git`: a folder that is no repository still says what it does not want searched.
_ALWAYS = ("--no-config", "--no-require-git", "--no-messages")


@cache
def program(workspace: str) -> str | None:
    """The path of rg: beside this Python (its wheel), else on PATH outside the workspace; None if not installed."""
    bundled = os.path.join(sysconfig.get_path("scripts"), "rg")
    return bundled if os.access(bundled, os.X_OK) else find("rg", workspace)


def records(
    arguments: Sequence[str], paths: Sequence[str] = (), *, cwd: str, deadline: Deadline, enough: Callable[[], bool]
) -> Iterator[dict[str, Any]]:
    """Yield the JSON records of a search in `paths` (none: everywhere) as they arrive; after `enough`, only the summary. Ends at the deadline.

    At most `MAX_OF_A_FILE` lines of a file are returned: rg keeps the records of a file in memory until it has read it.

    A record too long to decode comes as `{"type", "data": {path, line_number, absolute_offset, submatches}}`, with no `lines`.
    """
    complete = False
    options = ["--json", "--no-config", "--no-require-git", f"--max-count={MAX_OF_A_FILE}"]
    with _running([*options, *arguments], paths, cwd) as running:
        process, reason = running
        assert process.stdout is not None
        for line in _lines(process.stdout, deadline, enough):
            record = msgspec.json.decode(line) if isinstance(line, bytes) else line
            if record["type"] == "summary":
                complete = True
            yield record
        if not complete and (enough() or deadline.expired()):
            return
        if (code := process.wait()) < 0:
            raise InvalidError("ripgrep exceeded its memory limit", "use a rarer pattern, or search in one folder")
        if code == _FAILED:
            if not complete:
                raise InvalidError(f"ripgrep: {reason()}", "fix the pattern, file type or glob")
            yield {"type": "warnings", "data": reason().splitlines()}


def path_of(data: dict[str, Any]) -> str:
    """The path in the data of a record, relative to `cwd`."""
    return as_text(decoded(data["path"]).removeprefix(b"./"))


def decoded(value: dict[str, str]) -> bytes:
    """The bytes of a text in a record."""
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])


def count(arguments: Sequence[str], paths: Sequence[str] = (), *, cwd: str, deadline: Deadline) -> int:
    """The number of matching lines; much faster than reading them."""
    total = 0
    with _running(["--count", "--no-filename", *_ALWAYS, *arguments], paths, cwd) as (process, _):
        assert process.stdout is not None
        for line in process.stdout:
            total += int(line)
            if deadline.expired():
                break
    return total


def files(arguments: Sequence[str], paths: Sequence[str] = (), *, cwd: str, deadline: Deadline) -> list[str]:
    """The paths that rg would search, relative to `cwd`, without ignored and hidden files and links."""
    return _listed_files(["--files", *arguments], paths, cwd, deadline)


def files_with(arguments: Sequence[str], paths: Sequence[str] = (), *, cwd: str, deadline: Deadline) -> list[str]:
    """The paths of files that match a pattern."""
    return _listed_files(["--files-with-matches", *arguments], paths, cwd, deadline)


def _listed_files(arguments: Sequence[str], paths: Sequence[str], cwd: str, deadline: Deadline) -> list[str]:
    names: list[str] = []
    with _running(["--null", *_ALWAYS, *arguments], paths, cwd) as (process, reason):
        assert process.stdout is not None
        unfinished = b""
        while block := process.stdout.read(_READ):
            *complete, unfinished = (unfinished + block).split(b"\0")
            names += [as_text(path.removeprefix(b"./")) for path in complete]
            if deadline.expired():
                return names
        if process.wait() == _FAILED and (problem := reason()):
            raise InvalidError(f"ripgrep: {problem}", "fix the glob or the file type")
    return names


@contextmanager
def _running(arguments: Sequence[str], paths: Sequence[str], cwd: str) -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    executable = program(cwd)
    if executable is None:
        raise NotFoundError("ripgrep is not installed", "pip install 'adjourn[code]'")
    process = subprocess.Popen(
        [executable, *arguments, "--", *(native(path) or "." for path in paths or ("",))],
        cwd=cwd,
        env=outside(for_others(os.environ), cwd),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with suppress(ProcessLookupError):  # a line with a match at every letter would make gigabytes of records
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MAX_MEMORY, _MAX_MEMORY))
    errors: list[bytes] = []
    listener = threading.Thread(target=_listen, args=(process.stderr, errors), daemon=True)
    listener.start()

    def reason() -> str:
        listener.join()
        text = b"".join(errors).decode("utf-8", "replace").strip()
        return text.removeprefix("rg: ")

    try:
        yield process, reason
    finally:
        process.kill()
        process.wait()
        listener.join()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _listen(pipe: IO[bytes], errors: list[bytes]) -> None:
    length = 0
    while block := pipe.read(_READ):
        if length < _MAX_REASON:
            errors.append(block[: _MAX_REASON - length])
            length += len(block)


def _lines(pipe: IO[bytes], deadline: Deadline, enough: Callable[[], bool]) -> Iterator[bytes | dict[str, Any]]:
    while line := pipe.readline(MAX_RECORD):
        if line.endswith(b"\n"):
            yield line
        else:
            yield _long_match(line, pipe)
        if deadline.expired():
            return
        if enough():
            if summary := _last(pipe, deadline):
                yield summary
            return


def _last(pipe: IO[bytes], deadline: Deadline) -> bytes:
    """The last line of output: rg's summary. Empty if too much output precedes it."""
    tail = b""
    passed = 0
    while block := pipe.read1(MAX_RECORD):  # type: ignore[attr-defined]
        capped = _CAPPED in tail[-len(_CAPPED) :] + block
        tail = (tail + block)[-_MAX_REASON:]
        passed += len(block)
        if capped or passed > _MAX_DRAINED or deadline.expired():
            return b""
    return tail.rstrip(b"\n").rpartition(b"\n")[2]


def _long_match(head: bytes, pipe: IO[bytes]) -> dict[str, Any]:
    """A record without its text: the location of the line, and its first matches."""
    found = b""
    window = head
    block = head
    while not block.endswith(b"\n") and (block := pipe.readline(MAX_RECORD)):
        if len(found) < MAX_RECORD and found:
            found += block
            continue
        window = window[-200:] + block
        # A quote inside the line is escaped in JSON, so this can only be the record's own field.
        if not found and (hit := _NUMBER.search(window)):
            found = window[hit.start() :]
    beginning = _HEAD.match(head)
    kind, path = (beginning[1].decode(), msgspec.json.decode(beginning[2])) if beginning else ("", {"text": ""})
    hit = _NUMBER.match(found)
    spans = [{"start": int(start), "end": int(end)} for start, end in _SPAN.findall(found[:_READ])]
    data = {"path": path, "line_number": int(hit[1]) if hit else 0, "absolute_offset": int(hit[2]) if hit else 0}
    return {"type": kind, "data": {**data, "submatches": spans}}
