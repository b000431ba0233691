"""Worker processes that analyze files in parallel.

Owns: starting and stopping them, and analyzing few files in this process. Must never: leave a worker running.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from queue import SimpleQueue

import msgspec

from adjourn.code.index.analysis import SKIPPED, Analysis, analyse
from adjourn.code.index.worker import AnalysisRequest, read, write
from adjourn.host import outside, python

MAX_WORKERS = 4
_WORTH_IT = 64
_FILE_SECONDS = 60.0


def analyses(
    requests: Iterable[tuple[bytes, AnalysisRequest]], count: int, workspace: str
) -> Generator[tuple[bytes, str, Analysis], None, None]:
    """Yield the analysis of each request with its key, as completed; `count` is the approximate number of requests."""
    if count < _WORTH_IT:
        for key, request in requests:
            yield key, request.language, analyse(request.data, request.language, request.tags)
        return
    size = min(MAX_WORKERS, os.cpu_count() or 1)
    workers: SimpleQueue[_Worker] = SimpleQueue()
    started = [_Worker(workspace) for _ in range(size)]
    for worker in started:
        workers.put(worker)

    def done(key: bytes, request: AnalysisRequest) -> tuple[bytes, str, Analysis]:
        worker = workers.get()
        try:
            return key, request.language, worker.analyse(request)
        finally:
            workers.put(worker)

    source = iter(requests)
    with ThreadPoolExecutor(size) as threads:
        waiting: list[Future[tuple[bytes, str, Analysis]]] = []
        try:
            # A few more than there are workers: no worker waits, and no more files than these are in memory.
            waiting = [threads.submit(done, *one) for one in islice(source, 2 * size)]
            while waiting:
                first = waiting.pop(0)
                waiting += [threads.submit(done, *one) for one in islice(source, 1)]
                yield first.result()
        finally:
            for one in waiting:
                one.cancel()
            for worker in started:
                worker.close()


class _Worker:
    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._closed = False
        self._process = self._started()

    def analyse(self, request: AnalysisRequest) -> Analysis:
        """The worker's analysis. A file that crashes or stalls the worker is skipped, and the worker is replaced."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(_FILE_SECONDS, process.kill)
        timer.start()
        try:
            with suppress(OSError, ValueError, msgspec.DecodeError):  # ValueError: closed meanwhile
                write(process.stdin, request)
                if (data := read(process.stdout)) is not None:
                    return msgspec.msgpack.decode(data, type=Analysis)
        finally:
            timer.cancel()
        with self._lock:
            if not self._closed:
                self._end()
                self._process = self._started()
        return Analysis(SKIPPED, 0, [], [], "", [])

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
            python.command("-m", "adjourn.code.index.worker"),
            env=outside(os.environ, self._workspace),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
