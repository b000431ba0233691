"""Worker processes that analyze files in parallel: `python -m adjourn.code.index.workers`.

Each file has a time limit, few files are analyzed in this process, and no worker is left running.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice
from queue import SimpleQueue
from typing import IO, Any, Protocol, TypeVar

import msgspec

from adjourn.code.index.analysis import SKIPPED, Analysis, ChunkText, analyse, as_utf8, words_of
from adjourn.code.index.outline import Symbol
from adjourn.host import executables
from adjourn.host.executables import outside

MAX_WORKERS = 4
_WORTH_IT = 64
_FILE_SECONDS = 60.0
_LOOK_SECONDS = 1.0

_K = TypeVar("_K")
_A_co = TypeVar("_A_co", covariant=True)
_A = TypeVar("_A")


class WorkerRequest(Protocol[_A_co]):
    """What a worker can be asked; see `worker`."""

    def perform(self) -> _A_co: ...

    def decode(self, answer: bytes) -> _A_co: ...

    def skipped(self) -> _A_co: ...


def answers(
    requests: Iterable[tuple[_K, WorkerRequest[_A]]], count: int, workspace: str
) -> Generator[tuple[_K, _A], None, None]:
    """Yield the key and the answer of each request, in order; `count` is the approximate number of requests.

    A file that crashes a worker, or takes more than 60 s, is skipped, and the worker is replaced.
    """
    if count < _WORTH_IT:
        for key, request in requests:
            yield key, request.perform()
        return
    size = min(MAX_WORKERS, os.cpu_count() or 1)
    workers: SimpleQueue[_Worker] = SimpleQueue()
    started = [_Worker(workspace) for _ in range(size)]
    for worker in started:
        workers.put(worker)

    def done(key: _K, request: WorkerRequest[_A]) -> tuple[_K, _A]:
        worker = workers.get()
        try:
            return key, worker.answer(request)
        finally:
            workers.put(worker)

    source = iter(requests)
    with ThreadPoolExecutor(size) as threads:
        waiting: list[Future[tuple[_K, _A]]] = []
        try:
            # A few more than there are workers: no worker waits, and no more files than these are in memory.
            waiting = [threads.submit(done, *job) for job in islice(source, 4 * size)]
            while waiting:
                first = waiting.pop(0)
                while not wait((first,), _LOOK_SECONDS).done:
                    for worker in started:
                        worker.end_if_late()
                waiting += [threads.submit(done, *job) for job in islice(source, 1)]
                yield first.result()
        finally:
            for job in waiting:
                job.cancel()
            for worker in started:
                worker.close()


class _Worker:
    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._closed = False
        self._began = 0.0
        self._process = self._started()

    def answer(self, request: WorkerRequest[_A]) -> _A:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        self._began = time.monotonic()
        with suppress(OSError, ValueError, msgspec.DecodeError):  # ValueError: closed meanwhile
            write(process.stdin, request)
            if (data := read(process.stdout)) is not None:
                self._began = 0.0
                return request.decode(data)
        self._began = 0.0
        with self._lock:
            if not self._closed:
                self._end()
                self._process = self._started()
        return request.skipped()

    def end_if_late(self) -> None:
        """Kill the process if its file takes too long; whoever waits for its answer then skips the file."""
        if self._began and time.monotonic() - self._began > _FILE_SECONDS:
            self._process.kill()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._end()

    def _end(self) -> None:
        process = self._process
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            executables.python_command("-m", "adjourn.code.index.workers"),
            env=outside(os.environ, self._workspace),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )


# --- analyzes files in another process

_LENGTH = 4


class AnalysisRequest(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Bytes to analyze, with the symbols that Universal Ctags found, if any."""

    data: bytes
    language: str
    tags: list[Symbol] | None = None

    def perform(self) -> Analysis:
        return analyse(self.data, self.language, self.tags)

    def decode(self, answer: bytes) -> Analysis:
        return msgspec.msgpack.decode(answer, type=Analysis)

    def skipped(self) -> Analysis:
        """The answer for a file that cannot be analyzed."""
        return Analysis(SKIPPED, 0, [], [], "", [])


ChunkWords = list[tuple[str, str, str]]
"""For each chunk, the words of its name, of its documentation and of its text."""


class WordsRequest(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A file's bytes and its chunks, whose words are wanted."""

    data: bytes
    chunks: list[ChunkText]

    def perform(self) -> ChunkWords:
        text = as_utf8(self.data) or b""
        return [words_of(text, chunk) for chunk in self.chunks]

    def decode(self, answer: bytes) -> ChunkWords:
        return msgspec.msgpack.decode(answer, type=ChunkWords)

    def skipped(self) -> ChunkWords:
        """The answer for a file whose words cannot be found."""
        return [("", "", "")] * len(self.chunks)


def write(pipe: IO[bytes], message: Any) -> None:
    data = msgspec.msgpack.encode(message)
    pipe.write(len(data).to_bytes(_LENGTH, "big") + data)
    pipe.flush()


def read(pipe: IO[bytes]) -> bytes | None:
    """One message, or None at the end."""
    head = pipe.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    size = int.from_bytes(head, "big")
    data = pipe.read(size)
    return data if len(data) == size else None


def main() -> None:
    while (data := read(sys.stdin.buffer)) is not None:
        request = msgspec.msgpack.decode(data, type=AnalysisRequest | WordsRequest)
        write(sys.stdout.buffer, request.perform())


if __name__ == "__main__":
    main()
