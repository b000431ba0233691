"""A proxy's life: read the contract, relay until one side ends, settle what is open, end the upstream, exit.

Two threads read with blocking calls (faster here than polling); the main thread keeps time: it writes deferred
settlements, looks for answers to questions, renews leases, takes signals. Each of them may hang in a write to a pipe that
nobody reads: a third waits for the client to go, and one more sees to it that an end comes.

Owns: start, end, exit codes. Must never: outlive its client, or leave a request without an answer.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from select import poll
from threading import Event, Thread
from types import FrameType

from adjourn import checkpoints
from adjourn.aex import summary
from adjourn.clients import ClientContext, ClientOptions
from adjourn.errors import AdjournError
from adjourn.log import digest, kinds
from adjourn.mcp import LineReader, frames
from adjourn.policy import BrokenContractError, Contract, read_contract
from adjourn.proxy.answers import Answers
from adjourn.proxy.approvals import POLL_SECONDS, Confirmations
from adjourn.proxy.connection import Connection
from adjourn.proxy.forwarding import Forwarder
from adjourn.proxy.gate import Gate
from adjourn.proxy.meta import MetaTools
from adjourn.proxy.options import ProxyOptions
from adjourn.proxy.pipes import Wire
from adjourn.proxy.requests import ServerRequests
from adjourn.proxy.stderr_log import StderrLog
from adjourn.proxy.upstream import Upstream

CLIENT_IN = 0
MAX_UPSTREAM_MESSAGE = 256 * 1024 * 1024
SETTLE_SECONDS = 0.25
"""How long a deferred settlement may wait for a call to take it along. A thread that wakes more often is felt: it makes
one call in a hundred wait for a processor."""
HEARTBEAT_SECONDS = 20.0
SAMPLING_SECONDS = 0.5
"""How long a question for the client's model may wait."""
REFUSE_SECONDS = 1.0
GC_THRESHOLD = 10_000
"""Objects allocated and not yet freed before a collection. With the usual 700, collections take a measurable share of a call."""
LAST_LINES_SECONDS = 20.0
"""How long the last lines of a client that has gone may take."""
SHUT_DOWN_SECONDS = 15.0
"""How long the end may take. After a third of it the upstream is killed, if it is still there."""


class Proxy:
    """One run of `adjourn proxy`."""

    def __init__(self, options: ProxyOptions, upstream: Upstream, contract: Contract) -> None:
        self.report = StderrLog(as_json=bool(options["--log-json"]))
        client_options = ClientOptions(
            root=os.path.realpath(os.getcwd()),
            contract=contract,
            store=options["--store"],
            task=options["--task"],
            take_over=bool(options["--take-over"]),
            auto_confirm=bool(options["--auto-confirm"]),
            server=digest(os.fsencode("\0".join(options.upstream)))[:16],
        )
        self.upstream = upstream
        self.wire = Wire(upstream.stdin, self.report)
        self.context = ClientContext(client_options, on_event=self._client_event)
        self.connection = Connection(self.wire, self.context, errors=options["--errors"])
        self._upstream_reader = Thread(target=self._read_upstream, daemon=True)
        self._woken = Event()
        self._over = Event()
        self._ended = ""
        meta = MetaTools(self.context, self.report, errors=options["--errors"], style=options["--tool-names"])
        forwarder = Forwarder(self.connection, meta)
        requests = ServerRequests(self.connection)
        wake = self._woken.set
        self.confirmations = Confirmations(
            self.connection, forwarder, seconds=int(options["--confirm-timeout"]), wake=wake
        )
        self.gate = Gate(self.connection, meta, self.confirmations, forwarder, requests, wake=wake)
        self.answers = Answers(self.connection, meta, requests)

    def run(self) -> int:
        """Relay until an end; returns the exit code."""
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, self._signalled)
        Thread(target=self._read_client, daemon=True).start()
        Thread(target=self._watch_client, daemon=True).start()
        self._upstream_reader.start()
        self._announce()
        self._keep_time()
        return self._shut_down()

    def _announce(self) -> None:
        contract = self.context.contract
        policy = contract.policy
        self.report.event("policy", contract.policy_source)
        if contract.contract_source:
            self.report.event("contract", contract.contract_source)
        for title, rules in (("allow", policy.allow), ("deny", policy.deny), ("confirm", policy.confirm)):
            if rules:
                self.report.event(title, ", ".join(rule.pattern for rule in rules))
        self.report.event("budget", "no limit" if policy.budget is None else f"calls={policy.budget}")
        if policy.observe:
            self.report.event(
                "mode", "observe: everything passes, and what the policy would stop is written down"
            )
        for finding in contract.findings:
            self.report.event(
                "warning", f"{finding.code} {finding.source}:{finding.span.line} {finding.message}"
            )
        try:
            self.report.event("task", self.context.claim())
        except AdjournError as error:
            self.report.event(
                "store.error", f"{error}; calls with effects will be refused until it can be used"
            )

    def _client_event(self, event: str, text: str) -> None:
        self.report.event(event, text)
        if event == "policy.changed" and self.connection.upstream.revision:  # 2025-11-25 or earlier
            self.wire.to_client(frames.notification("notifications/tools/list_changed"))

    # --- the two directions

    def _read_client(self) -> None:
        reader = LineReader(CLIENT_IN, frames.MAX_MESSAGE_BYTES)
        try:
            while (lines := reader.read()) is not None:
                try:
                    self.gate.handle(lines)
                except Exception as error:  # one odd message must not end the session
                    self.report.event("proxy.bug", f"{type(error).__name__}: {error}")
                    self.gate.give_up(lines)
        finally:
            self._end("client-eof")

    def _read_upstream(self) -> None:
        reader = LineReader(self.upstream.stdout, MAX_UPSTREAM_MESSAGE)
        try:
            while (lines := reader.read()) is not None:
                try:
                    self.answers.handle(lines)
                except Exception as error:  # as above
                    self.report.event("proxy.bug", f"{type(error).__name__}: {error}")
                if not self._woken.is_set():
                    self._woken.set()
        finally:
            self._end("upstream-exit")

    def _end(self, reason: str) -> None:
        if not self._ended:
            self._ended = reason
            Thread(target=self._insist, daemon=True).start()
        self._over.set()
        self._woken.set()

    def _signalled(self, signum: int, frame: FrameType | None) -> None:
        del frame
        reason = f"signal-{signal.Signals(signum).name}"
        # In a thread of its own: the signal may have come while this one holds the lock of `_woken`.
        Thread(target=self._end, args=(reason,), daemon=True).start()

    def _watch_client(self) -> None:
        """The reading thread comes to the end of input once it has handled all before it; it can hang in that for ever."""
        hung_up = poll()
        hung_up.register(CLIENT_IN, 0)
        hung_up.poll()
        time.sleep(LAST_LINES_SECONDS)
        self._end("client-eof")

    def _insist(self) -> None:
        """See to it that the process ends, though a pipe that nobody reads can block every other thread of it.

        An upstream that is killed lets go who writes to it. A client that lives cannot be made to read; what it was told
        is in the store by then, and the next session finds this one dead.
        """
        time.sleep(SHUT_DOWN_SECONDS / 3)
        with suppress(ProcessLookupError):
            self.upstream.kill()
        time.sleep(SHUT_DOWN_SECONDS * 2 / 3)
        os._exit(1)

    # --- the main thread

    def _keep_time(self) -> None:
        beat = time.monotonic() + HEARTBEAT_SECONDS
        while True:
            self._woken.wait(self._pace())
            woken = self._woken.is_set()
            self._woken.clear()  # before looking at what it stands for
            if self._ended:
                return
            if woken:
                seen = [session.task.oldest_deferred for session in self.context.sessions]
                self._over.wait(SETTLE_SECONDS)
                self._settle(seen)
            self.report.flush()
            if time.monotonic() >= beat:
                beat = time.monotonic() + HEARTBEAT_SECONDS
                self._beat()
            if self.confirmations.waiting:
                self.confirmations.poll()
            if self.gate.sampling is not None:
                self.gate.sampling.poll()

    def _pace(self) -> float:
        """How long to wait for something to do: no longer than what others write into the store may wait."""
        if self.confirmations.waiting:
            return POLL_SECONDS
        return HEARTBEAT_SECONDS if self.gate.sampling is None else SAMPLING_SECONDS

    def _settle(self, seen: Sequence[object]) -> None:
        """Write deferred settlements that no call took along. While calls come in, each takes those before it."""
        for session in self.context.sessions:
            oldest = session.task.oldest_deferred
            if oldest is None:
                continue
            if any(oldest is fact for fact in seen):
                try:
                    session.task.flush()
                except AdjournError as error:
                    self.report.event("store.error", str(error))
            else:
                self._woken.set()  # look again

    def _beat(self) -> None:
        for session in self.context.sessions:
            try:
                session.heartbeat()
            except AdjournError as error:
                self.report.event("store.error", str(error))

    def _shut_down(self) -> int:
        reason = self._ended
        self.report.event("ending", reason)
        crashed = reason == "upstream-exit"
        if crashed:
            status = self.upstream.wait(1.0)
            code, signum = _exit_of(status)
            self.report.event("upstream.crashed", code=code, signal=signum)
            self._unanswered("the upstream server ended")
            self._note(kinds.UpstreamCrashed(code=code, signal=signum))
        else:
            # what the upstream still answers while it ends is settled and handed over by the reading thread
            self.wire.close_upstream()
            self.upstream.end()
            self._upstream_reader.join(REFUSE_SECONDS)
            self._unanswered("the session ended")
        self._end_sessions(reason)
        if self.gate.sampling is not None:
            self.gate.sampling.close()
        self.context.close(reason)
        return 1 if crashed else 0

    def _unanswered(self, why: str) -> None:
        self.confirmations.give_up(why)
        for pending in self.wire.fail_pending(f"{why}; whether the call had an effect is not known"):
            if pending.session is not None and pending.call and not pending.cancelled:
                try:
                    pending.session.settle([kinds.ToolSettled(call=pending.call, outcome="no-answer")])
                except AdjournError as error:
                    self.report.event("store.error", str(error))

    def _end_sessions(self, reason: str) -> None:
        for session in self.context.sessions:
            try:
                if path := checkpoints.close_session(session, reason, self.context.options.root):
                    self.report.event("checkpoint", f"{path} (calls used: {session.task.ledger.calls_used})")
            except AdjournError as error:
                self.report.event("checkpoint.failed", str(error))

    def _note(self, data: kinds.Data) -> None:
        for session in self.context.sessions:
            try:
                session.note(data)
            except AdjournError as error:
                self.report.event("store.error", str(error))


def _exit_of(status: int | None) -> tuple[int, int]:
    if status is None:
        return 0, 0
    return (os.WEXITSTATUS(status), 0) if os.WIFEXITED(status) else (0, os.WTERMSIG(status))


def run(options: ProxyOptions, upstream: Upstream) -> int:
    """Run the proxy in front of an upstream that was just started; returns the exit code."""
    report = StderrLog(as_json=bool(options["--log-json"]))
    try:
        contract = read_contract(os.getcwd(), options["--policy"], options["--contract"])
    except BrokenContractError as error:
        for finding in error.findings:
            sys.stderr.write(f"{summary(finding)}\n")
        report.event("stopped", str(error))
        os.close(upstream.stdin)
        first = next(finding for finding in error.findings if finding.severity == "error")
        refuse_all(f"{error.message}: {summary(first)}")
        upstream.end()
        return 1
    gc.freeze()  # what was loaded stays: no collection needs to look at it again
    gc.set_threshold(GC_THRESHOLD)
    return Proxy(options, upstream, contract).run()


def refuse_all(message: str) -> None:
    """Answer every request with an error for a second, so that no client waits for an upstream that never came."""

    def refuse() -> None:
        reader = LineReader(CLIENT_IN, frames.MAX_MESSAGE_BYTES)
        while (lines := reader.read()) is not None:
            for line in lines:
                try:
                    decoded = frames.decode_client_line(line)
                except frames.FrameError:
                    continue
                if isinstance(decoded, frames.Message) and decoded.is_request:
                    os.write(1, frames.error(decoded.id, frames.UPSTREAM_GONE, message))

    thread = Thread(target=refuse, daemon=True)
    thread.start()
    thread.join(REFUSE_SECONDS)
