"""`adjourn run`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Self, TextIO

import click
import msgspec

from adjourn.adapters.models import choose
from adjourn.adapters.otlp import Exporter
from adjourn.aex.diagnostics import render
from adjourn.cli.context import (
    FILE_PATH,
    CommandContext,
    at_store,
    click_options,
    example,
    for_machines,
    user,
    with_model,
)
from adjourn.cli.lookup import from_here
from adjourn.cli.output import complain, cut, safe, say, say_finding, say_json
from adjourn.cli.terminal import width
from adjourn.errors import InvalidError, RefusedError, UsageError
from adjourn.host.clock import now
from adjourn.host.finding import workspace_of
from adjourn.host.workspace import read_file
from adjourn.log.canonical_json import digest
from adjourn.log.event import milliseconds, timestamp
from adjourn.log.kinds import tool_name
from adjourn.store.base import Head
from adjourn.tasks.approvals import answer, settle_doubt
from adjourn.tasks.entries import Approval
from adjourn.tasks.task import Task
from adjourn.text.redact import redact_json

if TYPE_CHECKING:
    from adjourn.runs.model import Model
    from adjourn.runs.runner import Run, RunOutcome
    from adjourn.runs.step_calls import Stop


MAX_INPUTS = 10_000_000


@click.command(
    params=click_options("run"),
    epilog=example(
        "adjourn run tasks/fix-test.aex --inputs tasks/fix-test.inputs.json --model anthropic", "adjourn run --resume"
    ),
)
@click.argument("file", default="", metavar="[FILE]", type=FILE_PATH)
@with_model("answers `make` steps")
@at_store
@for_machines
def run(context: CommandContext, file: str, *, resume: bool, inputs: str, as_json: bool, **settings: Any) -> int:
    """Run the steps of the contract FILE under the policy, and record them.

    A run that was interrupted or blocked continues with --resume from the step it had reached; finished steps do not run again.
    Prints the events, then the value of the `return`. Exit code 1 when the run is blocked.
    """
    from adjourn.runs.runner import Options
    from adjourn.runs.start import resume_run, start_run
    from adjourn.runs.step_calls import Stop

    if not file and not resume:
        raise UsageError("no contract is named", "name one: adjourn run FILE, or resume a run with --resume")
    if resume and inputs:
        raise UsageError("a run keeps the inputs that it was started with", "leave out --inputs, or start a new run")
    file, settings["policy"] = (from_here(path, context.root) for path in (file, settings["policy"]))
    if resume:
        _ = context.store  # which must be there
    stop = Stop()
    exporter = _exporter(settings["otlp_endpoint"])
    with Printer(quiet=as_json, structured=settings["log_json"], exporter=exporter) as printer, signals(stop):
        options = Options(
            root=context.root,
            tree=context.tree,
            store=context.url,
            ask=Person(printer, settings["confirm_timeout"]),
            emit=printer.event,
            stop=stop,
            tell=lambda note: complain(safe(note)),
            model=_model(settings["model"], settings["model_handler"]),
            **{name: settings[name] for name in ("policy", "task", "registry", "auto_confirm")},
        )
        prepared = resume_run(options, file) if resume else start_run(options, file, _inputs(inputs))
        printer.begin(prepared, again=resume)
        try:
            outcome = prepared.go()
        except KeyboardInterrupt:
            complain("interrupted", f"resume it: adjourn run --resume --task {prepared.task}")
            return 130
    return _tell(outcome, as_json=as_json)


def _model(name: str, handler: str) -> Model | None:
    if not (name or handler or os.environ.get("AEX_MODEL")):
        return None

    return choose(name, handler)


def _exporter(url: str) -> Exporter | None:
    if not url:
        return None

    try:
        return Exporter(url)
    except InvalidError as error:
        raise UsageError(f"--otlp-endpoint: {error.message}", error.remedy) from error


def _inputs(file: str) -> dict[str, Any]:
    """The inputs. Raises `UsageError` for what is no JSON object."""
    if not file:
        return {}

    text = sys.stdin.buffer.read(MAX_INPUTS + 1) if file == "-" else read_file(file, MAX_INPUTS, workspace_of().root)
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the inputs in {file} are not a JSON object: {error}", 'write {"name": value, …}') from error


def _tell(outcome: RunOutcome, *, as_json: bool) -> int:
    if as_json:
        say_json(msgspec.to_builtins(outcome))
    elif outcome.status == "success":
        say("runtime success", "green")
        say_json(outcome.output)
    else:
        sys.stdout.flush()
        print(f"error runtime blocked: {safe(outcome.reason)}", file=sys.stderr)
        if outcome.remedy:
            print(f"  {safe(outcome.remedy)}", file=sys.stderr)
    return 0 if outcome.status == "success" else 1


# --- what a run shows, and how it asks

NAME_WIDTH = 16
WATCH_SECONDS = 1.0
SLOW_SECONDS = 1.0
TICK_SECONDS = 0.2


class Printer:
    """Prints events, and keeps those of a drafted contract (in `.aex/runs`) beside it. `quiet`: prints none."""

    def __init__(self, *, quiet: bool, structured: bool, exporter: Exporter | None = None) -> None:
        self._quiet = quiet
        self._exporter = exporter
        self._structured = structured
        self._trace = os.urandom(16).hex()
        self._kept: TextIO | None = None
        self._early: list[str] = []
        self._ticker = Ticker()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._ticker.close()
        if self._kept is not None:
            self._kept.close()
        if self._exporter is not None and (lost := self._exporter.close()):
            complain(safe(lost), "nothing to do: the run continues, and its history is in the store")

    def begin(self, run: Run, *, again: bool) -> None:
        """The run is there: show warnings about its contract; from now on keep its events."""
        for finding in run.plan.findings:
            say_finding(render(finding, run.plan.text if finding.source == run.plan.source else ""), err=True)
        self._trace = digest(run.task.encode())[:32]  # one for all sessions of a run
        source = run.plan.source
        if os.path.join(".aex", "runs", "") in source:
            self._kept = _open_beside(source, again=again)
        if self._kept is not None:
            self._kept.writelines(self._early)

    def event(self, name: str, data: dict[str, Any]) -> None:
        """Print one event, as it happens."""
        data = redact_json(data)
        entry = {"event": name, "data": data, "timestamp": timestamp(now())}
        span = os.urandom(8).hex()
        if self._exporter is not None:
            self._exporter.add(name, data, trace=self._trace, span=span)
        line = json.dumps(entry) + "\n"
        if self._kept is not None:
            self._kept.write(line)
            self._kept.flush()
        else:
            self._early.append(line)
        with self._ticker.silent(str(data.get("tool", "working"))):
            if self._structured and not self._quiet:
                print(json.dumps(entry | {"traceId": self._trace, "spanId": span}), flush=True)
            elif not self._quiet:
                text = f"{name:<{NAME_WIDTH}} {json.dumps(data)}"
                print(cut(text, width()) if sys.stdout.isatty() else text, flush=True)

    def silent(self) -> AbstractContextManager[None]:
        """While a person is asked."""
        return self._ticker.silent("working")


def _open_beside(source: str, *, again: bool) -> TextIO | None:
    """The file beside a drafted contract with the events of its run. A new run replaces it. Follows no link."""
    path = source.removesuffix(".aex") + ".audit.jsonl"
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_APPEND if again else os.O_TRUNC)
    try:
        return os.fdopen(os.open(path, flags, 0o644), "w", encoding="utf-8")
    except OSError as error:
        complain(
            f"cannot write {safe(path)}: {error.strerror}",
            "nothing to do: the run continues, and its history is in the store",
        )
        return None


class Ticker:
    """A line on stderr that says what takes so long, on a terminal only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._label, self._since, self._shown = "working", time.monotonic(), False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()

    def _tick(self) -> None:
        while not self._over.wait(TICK_SECONDS):
            took = time.monotonic() - self._since
            if took >= SLOW_SECONDS and self._lock.acquire(blocking=False):
                sys.stderr.write(f"\r{safe(self._label)}: {took:.0f} s \x1b[K")
                sys.stderr.flush()
                self._shown = True
                self._lock.release()

    @contextmanager
    def silent(self, label: str) -> Iterator[None]:
        """Something else is written; what comes then is called `label`."""
        with self._lock:
            if self._shown:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
                self._shown = False
            yield
            self._label, self._since = label, time.monotonic()

    def close(self) -> None:
        """Stop, and clear the line."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        with self.silent(""):
            pass


class Person:
    """Asks at the terminal; without one, or inside a client, waits for `adjourn approve`, `deny` or `settle`, at most `seconds`."""

    def __init__(self, printer: Printer, seconds: float | None) -> None:
        self._printer = printer
        self._seconds = seconds

    def __call__(self, task: Task, question: Approval) -> None:
        from adjourn.clients.person import client_of

        with self._printer.silent():
            at_terminal = sys.stdin.isatty() and sys.stdout.isatty() and question.who in ("", user().id)
            from adjourn.clients import person  # only where a person is asked

            try:
                needs_pin = at_terminal and person.needed_pin(task.store) is not None
                if at_terminal and (needs_pin or client_of(task.store) is None):
                    _ask(task, question, needs_pin=needs_pin)
                    return
            except RefusedError as error:
                print(safe(str(error)), file=sys.stderr)
            _wait(task, question, self._seconds)


def _ask(task: Task, question: Approval, *, needs_pin: bool) -> None:
    print(f"\n{safe(tool_name(question))} {safe(question.arguments)}\n  why: {safe(question.cause)}", file=sys.stderr)
    if question.doubt:
        print("  It may have happened before the run was interrupted. Check, then answer.", file=sys.stderr)
        reply = _answered("Did it happen? [y: it did / n: it did not, do it now / Enter: leave it] ")
        if reply in ("y", "yes", "n", "no"):
            _check(task, needs_pin=needs_pin)
            settle_doubt(task, question.doubt, happened=reply[0] == "y", by=user(), note="asked at the terminal")
    else:
        yes = _answered("Do it? [y/N] ") in ("y", "yes")
        _check(task, needs_pin=needs_pin)
        answer(task, question.id, yes=yes, via="terminal", by=user())


def _check(task: Task, *, needs_pin: bool) -> None:
    if needs_pin:
        from adjourn.clients import person  # only where a person is asked

        person.check("adjourn run", (), task.store, task=task.id)


def _answered(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower()


def _wait(task: Task, question: Approval, seconds: float | None) -> None:
    """Until the question is answered, the doubt is settled, or the time is over."""
    end = milliseconds(question.expires)
    if seconds is not None:
        end = min(end, now() + int(seconds * 1000))
    settling = f", or adjourn settle {question.doubt}" if question.doubt else ""
    print(
        f"waiting for a person: {safe(tool_name(question))} ({safe(question.cause)}): "
        f"adjourn approve {question.id}, or adjourn deny {question.id}{settling}",
        file=sys.stderr,
        flush=True,
    )
    while True:
        ledger = task.refresh()
        approval = ledger.approvals.get(question.id)
        left = (end - now()) / 1000
        if approval is None or approval.approved or approval.refused or left <= 0:
            return
        task.store.watch(task.id, Head(ledger.seq, ledger.hash), min(WATCH_SECONDS, left))


@contextmanager
def signals(stop: Stop) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the run where that is safe."""
    before = {number: signal.signal(number, stop.request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
