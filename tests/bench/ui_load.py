"""The web page under load: what is painted, how soon, what reaches twenty open pages, and what the page costs the calls of a proxy."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import histories
import machine
from peer import ADJOURN, Peer, child_environment
from sizes import Sizes
from tables import Cell, Table, median, percentile
from turns import median_ratio, take_turns
from ui_pages import SHOWN_SECONDS, Ends, Tab
from ui_store import make_workspace

sys.path.insert(0, str(Path(__file__).parents[1]))

from adjourn.ui.server import NICE
from support.page import serving
from support.tools import chromium

HERE = Path(__file__).parent
UPSTREAM = [sys.executable, "-I", "-S", str(HERE / "echo_upstream.py")]
WRITERS = 4
"""Processes, each with its share of the tasks that are written."""
PAINT, PROMPT, MEMORY = 300.0, 1_000.0, 150.0
"""What is held to: milliseconds of a first paint, milliseconds to the last update, MiB."""
TITLES = (
    "The web page: first paints",
    "The web page: open pages while tasks are written",
    "The web page: calls beside open pages",
)
_STILL = "still being read"
CLOSED, OPEN, LOOP = "closed", "open", "loop"
_LOOP = """
import sys, threading, time
threading.Thread(target=lambda: (sys.stdin.read(), sys.exit()), daemon=True).start()
while threading.active_count() > 1:
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        pass
    time.sleep(0.02)
"""


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The tables of this section; files are made in `folder`."""
    root = Path(folder, "work")
    make_workspace(root, sizes.page_tasks, sizes.page_events)
    environment = child_environment(os.environ["ADJOURN_CONFIG"])
    paints, load, calls = (Table(title, columns) for title, columns in zip(TITLES, _COLUMNS, strict=True))
    paints.note = (
        f"A store of {sizes.page_tasks:,} tasks and one of {sizes.page_events:,} events; {sizes.page_rounds} of each, "
        f"{sizes.page_starts} of those after a start, in turns. From the request to the last byte of the page and its style "
        "sheets; in Chromium: `first-contentful-paint` of the browser, its median."
    )
    for name, path in (("inbox", "/"), ("tasks", "/tasks")):
        first = [_after_start(root, environment, path) for _ in range(sizes.page_starts)]
        _add_paint(paints, f"{name}, just started", first, None)
    with _served(root, environment) as server:
        paths = _paths(sizes)
        server.wait_until_read()
        times = _paints(server, paths, sizes.page_rounds)
        seen = _in_chromium(server, paths, sizes.page_rounds)
        for name in paths:
            _add_paint(paints, name, times[name], seen.get(name))
        for name, values in _load(load, server, sizes).items():
            _add_paint(paints, f"{name}, under load", values, None)
        _calls(calls, server, sizes)
    return [paints, load, calls]


_COLUMNS = (
    ["page", "median, ms", "slowest, ms", "in Chromium, ms", "target"],
    ["", "value", "target"],
    ["", "page closed", "pages open", "closed = 1", "±", "a loop instead", "closed = 1", "±"],
)


def _add_paint(table: Table, name: str, times: Sequence[float], seen: float | None) -> None:
    table.add(name, median(times), max(times), seen, f"≤ {PAINT:.0f} ms")


def _paths(sizes: Sizes) -> dict[str, str]:
    long, half = f"/task?id={histories.TASK}", sizes.page_events // 2
    return {
        "inbox": "/",
        "tasks": "/tasks",
        "tasks, last page": "/tasks?page=99999",
        "tasks, a search": "/tasks?q=invoices&show=open",
        f"task of {sizes.page_events:,} events": long,
        "the middle of its timeline": f"{long}&before={half}",
    }


# --- the server


class Server(NamedTuple):
    """A running `adjourn ui`; `cookie` is that of the browser that opened it."""

    root: Path
    environment: Mapping[str, str]
    origin: str
    cookie: str
    pid: int

    def tab(self) -> Tab:
        return Tab(self.origin, self.cookie)

    def wait_until_read(self) -> None:
        """Until the server has read every task once."""
        tab = self.tab()
        while any(_STILL in tab.visit(path).text for path in ("/", "/tasks")):
            time.sleep(0.1)

    @property
    def memory(self) -> float:
        """Its proportional share of memory, in MiB."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))

    @contextmanager
    def pages(self, paths: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
        """So many open pages, each drawn."""
        command = ["nice", "-n19", sys.executable, str(HERE / "ui_pages.py"), self.origin, self.cookie, *paths]
        with _program(command, self.environment) as opened:
            assert opened.stdout is not None
            assert opened.stdout.readline() == "open\n"
            yield opened


@contextmanager
def _served(root: Path, environment: Mapping[str, str]) -> Iterator[Server]:
    with serving(root, environment) as page:
        answer = page.browser.get(page.link)
        cookie = answer.headers["set-cookie"].partition(";")[0]
        yield Server(root, environment, page.origin, cookie, _pid_of(root))


def _pid_of(root: Path) -> int:
    """The process of `adjourn ui` in a folder."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[1:4] == [b"-m", b"adjourn", b"ui"] and (folder / "cwd").resolve() == root.resolve():
                return int(folder.name)
        except OSError:  # it has ended, or is another user's
            continue
    raise SystemExit("the section `ui` needs /proc: leave it out on this system")


@contextmanager
def _program(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A program of ours that ends when its input does."""
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        try:
            yield started
        finally:
            assert started.stdin is not None
            started.stdin.close()
            try:
                started.wait(10)
            except subprocess.TimeoutExpired:
                started.kill()


# --- first paints


def _after_start(root: Path, environment: Mapping[str, str], path: str) -> float:
    with _served(root, environment) as server:
        return server.tab().paint(path).seconds * 1e3


def _paints(server: Server, paths: Mapping[str, str], rounds: int) -> dict[str, list[float]]:
    tab = server.tab()
    turns = take_turns({name: partial(tab.paint, path) for name, path in paths.items()}, rounds)
    return {name: [visit.seconds * 1e3 for visit in turns.of(name)] for name in paths}


def _in_chromium(server: Server, paths: Mapping[str, str], rounds: int) -> dict[str, float]:
    """What the system's Chromium says, where there is one that can be driven."""
    program = chromium()
    if program is None:
        return {}
    from playwright.sync_api import sync_playwright  # where there is a browser, there is this

    name, _, value = server.cookie.partition("=")
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=str(program), args=options)
        context = browser.new_context()
        context.add_cookies([{"name": name, "value": value, "url": server.origin}])

        def look(path: str) -> float:
            page = context.new_page()
            page.goto(server.origin + path)
            painted: float = page.evaluate(_PAINTED)
            page.close()
            return painted

        turns = take_turns({name: partial(look, path) for name, path in paths.items()}, rounds)
        browser.close()
    return {name: median(turns.of(name)) for name in paths}


_PAINTED = """() => new Promise((done) => new PerformanceObserver((seen) => {
  for (const one of seen.getEntries()) if (one.name === "first-contentful-paint") done(one.startTime);
}).observe({ type: "paint", buffered: true }))"""


# --- open pages while tasks are written


class _Written(NamedTuple):
    """What all writers wrote: `stopped` is when the last of them did, as `time.time`."""

    stopped: float
    seconds: float
    events: int
    ends: Ends


def _load(table: Table, server: Server, sizes: Sizes) -> dict[str, list[float]]:
    """Adds the rows; returns the first paints meanwhile."""
    waiting = _waiting(server)
    names = [f"live-{one}-{other:03}" for other, one in itertools.product(range(sizes.page_live // WRITERS), range(WRITERS))]  # fmt: skip
    watched = _watched(names, sizes.page_open)
    paths = {"inbox": "/", "tasks": "/tasks", "a written task": f"/task?id={names[0]}"}
    with ExitStack() as stack:
        writers = [stack.enter_context(_writer(server, number, sizes)) for number in range(WRITERS)]
        for writer in writers:
            _say(writer, "go")
        opened = stack.enter_context(server.pages(watched))
        memory = stack.enter_context(_sampled(server))
        processor, began = machine.processor_seconds(server.pid), time.monotonic()
        painted = stack.enter_context(_painting(server, paths))
        written = _stopped(writers, sizes)
        used, seconds = machine.processor_seconds(server.pid), time.monotonic() - began
        end = time.monotonic() + SHOWN_SECONDS
        while not all(painted.values()) and time.monotonic() < end:  # of a load of seconds, on a busy machine
            time.sleep(0.05)
        painted_so_far = {name: list(times) for name, times in painted.items()}
        given = {"waiting": waiting + len(names), "ends": written.ends}
        _say(opened, json.dumps(given))
        assert opened.stdout is not None
        pages = json.loads(opened.stdout.readline())
    late = [None if one["shown"] is None else max(0.0, one["shown"] - written.stopped) * 1e3 for one in pages]
    known = [one for one in late if one is not None]
    lost = [one["path"] for one, shown in zip(pages, late, strict=True) if shown is None]
    table.add("tasks that are written", len(names), None)
    table.add("events a second, all together", written.events / written.seconds, f"{sizes.page_rate:,}")
    table.add("open pages", len(pages), None)
    table.add("refreshes of a page in a second", sum(one["visits"] for one in pages) / len(pages) / seconds, None)  # fmt: skip
    table.add("pages that lost the last state", len(lost), "0")
    table.add("the last state, at the median page, ms", median(known) if known else None, None)
    table.add("the last state, at the last page, ms", max(known) if known else None, f"≤ {PROMPT:,.0f}")
    table.add("memory of the server (PSS), most, MiB", max(memory), f"≤ {MEMORY:.0f}")
    table.add("processors that the server used", None if None in (used, processor) else (used - processor) / seconds, None)  # type: ignore[operator]  # fmt: skip
    table.note = (
        f"{WRITERS} processes write for {sizes.page_seconds:.0f} s with the code of a proxy, into the store of the first table; a "
        f"page has the connection and the requests of its script. The last state: every task asks a person at the end, and every "
        f"page has to show all that it is about; a page that did not within {SHOWN_SECONDS:.0f} s has lost it. Times from the last "
        "event to the answer that shows it."
    )
    return painted_so_far


def _waiting(server: Server) -> int:
    text = server.tab().visit("/").text
    return int(text.partition('data-count="')[2].partition('"')[0])


def _watched(names: Sequence[str], count: int) -> list[str]:
    """A fifth of the pages are inboxes, three tenths lists, the others tasks."""
    lists = itertools.cycle(["/tasks", "/tasks?q=live", "/tasks?show=waiting"])
    inboxes, listed = max(1, count // 5), max(1, count * 3 // 10)
    tasks = [f"/task?id={name}" for name in itertools.islice(itertools.cycle(names), count - inboxes - listed)]
    return ["/"] * inboxes + list(itertools.islice(lists, listed)) + tasks


@contextmanager
def _writer(server: Server, number: int, sizes: Sizes) -> Iterator[subprocess.Popen[str]]:
    share = [str(sizes.page_live // WRITERS), str(sizes.page_rate / WRITERS), str(sizes.page_seconds)]
    command = [sys.executable, str(HERE / "ui_writer.py"), str(server.root), str(number), *share]
    with _program(command, server.environment) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        yield writer


def _say(program: subprocess.Popen[str], line: str) -> None:
    assert program.stdin is not None
    program.stdin.write(f"{line}\n")
    program.stdin.flush()


def _stopped(writers: Sequence[subprocess.Popen[str]], sizes: Sizes) -> _Written:
    told: list[dict[str, Any]] = [json.loads(writer.stdout.readline()) for writer in writers if writer.stdout]
    ends = {name: tuple(end) for one in told for name, end in one["ends"].items()}
    stopped, events = max(one["stopped"] for one in told), sum(one["written"] for one in told)
    return _Written(stopped, sizes.page_seconds, events, ends)


@contextmanager
def _sampled(server: Server) -> Iterator[list[float]]:
    """The server's memory, looked at every second."""
    values, ended = [server.memory], Event()

    def look() -> None:
        while not ended.wait(1):
            values.append(server.memory)

    with _beside(look, ended):
        yield values


@contextmanager
def _painting(server: Server, paths: Mapping[str, str]) -> Iterator[dict[str, list[float]]]:
    """The pages in turn, as somebody opens them who looks in now and then."""
    times: dict[str, list[float]] = {name: [] for name in paths}
    ended, tab = Event(), server.tab()

    def look() -> None:
        for name in itertools.cycle(paths):
            times[name].append(tab.paint(paths[name]).seconds * 1e3)
            if ended.wait(0.3):
                return

    with _beside(look, ended):
        yield times


@contextmanager
def _beside(look: Any, ended: Event) -> Iterator[None]:
    thread = Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# --- the calls of a proxy


def _calls(table: Table, server: Server, sizes: Sizes) -> None:
    with ExitStack() as stack:
        proxy = Peer([ADJOURN, "proxy", "--", *UPSTREAM], str(server.root), server.environment)
        stack.callback(proxy.close)
        proxy.greet()
        task = _newest(server)
        watched = _watched([task], sizes.page_open)
        tools = ("notes.get", "notes.set")
        for tool in tools:
            proxy.sequential(tool, sizes.warm_up)

        beside: dict[str, Callable[[], AbstractContextManager[Any]]] = {
            CLOSED: nullcontext,
            OPEN: partial(server.pages, watched),
            LOOP: partial(_program, ["nice", "-n", str(NICE), sys.executable, "-c", _LOOP], server.environment),
        }

        def turn(name: str) -> dict[str, _Calls]:
            with beside[name]():
                return {tool: _timed(proxy, tool, sizes.page_turn) for tool in tools}

        turns = take_turns({name: partial(turn, name) for name in beside}, sizes.page_turns)
    for tool, name in zip(tools, ("a reading call", "a call with effects"), strict=True):
        figures: dict[str, Callable[[_Calls], float]] = {
            "p50, µs": lambda one: percentile(one.times, 0.5),
            "p99, µs": lambda one: percentile(one.times, 0.99),
            "CPU of the proxy, µs": lambda one: one.processor,
        }
        for figure, of in figures.items():
            floors, *others = ([of(values[tool]) for values in turns.of(arm)] for arm in beside)
            cells: list[Cell] = [f"{name}, {figure}", median(floors)]
            for mine in others:
                ratio = median_ratio(zip(mine, floors, strict=True))
                assert ratio is not None
                cells += (median(mine), ratio.median, ratio.error)
            table.add(*cells)
    table.note = (
        f"One proxy in the workspace of the tables above, called one at a time; {turns.note} of {sizes.page_turn:.1f} s for each "
        f"kind of call, with {sizes.page_open} open pages and without, in turns. `adjourn ui` runs all the time; what asks as "
        "the pages do has the lowest priority. A loop instead: a program of the server's priority that computes half of the time "
        "and opens nothing. The first figures are medians of the rounds'."
    )


class _Calls(NamedTuple):
    """Microseconds of each call, and what the proxy computed for one."""

    times: list[float]
    processor: float


def _timed(proxy: Peer, tool: str, seconds: float) -> _Calls:
    times: list[float] = []
    before = machine.processor_seconds(proxy.process.pid) or 0
    end = time.monotonic() + seconds
    while not times or time.monotonic() < end:
        times += (one * 1e6 for one in proxy.sequential(tool, 20))
    used = (machine.processor_seconds(proxy.process.pid) or 0) - before
    return _Calls(times, used * 1e6 / len(times))


def _newest(server: Server) -> str:
    """The task that was used last: the proxy's."""
    text = server.tab().visit("/tasks").text
    return text.partition('href="/task?id=')[2].partition('"')[0]
