"""A proxy's life: read the contract, relay until one side ends, settle what is open, end the upstream, exit.

Owns: start, end, exit codes, what is read when. Must never: outlive its client, or leave a request without an answer.
"""

from __future__ import annotations

import gc
import os
import signal
import stat
import sys
import time
from contextlib import suppress
from functools import partial
from select import POLLIN, poll
from threading import Thread
from types import FrameType

from adjourn.aex.diagnostics import summary
from adjourn.clients.client import ClientContext
from adjourn.clients.client_process import ClientOptions
from adjourn.clients.options import ProxyOptions
from adjourn.errors import AdjournError
from adjourn.host.finding import Workspace
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.mcp import frames
from adjourn.mcp.frames import LineReader
from adjourn.policy.contract import BrokenContractError, Contract
from adjourn.proxy.loop import Loop, PipeWriter, ServerStderr
from adjourn.proxy.upstream import Upstream, UpstreamStartError
from adjourn.relay.ports import NEVER, StderrLog, Unread
from adjourn.relay.relay import NOT_KNOWN, Relay, RelayOptions
from adjourn.relay.request import UNREAD

CLIENT_IN, CLIENT_OUT = 0, 1
MAX_UPSTREAM_MESSAGE = 256 * 1024 * 1024
SETTLE_SECONDS = 0.25
"""How long a deferred settlement may wait for a call to take it along."""
HEARTBEAT_SECONDS = 20.0
REFUSE_SECONDS = 1.0
GC_THRESHOLD = 10_000
"""Objects allocated and not yet freed before a collection. With the usual 700, collections take a measurable share of a call."""
UNREAD_SECONDS = 300.0
"""How long a server may take nothing from a full pipe: one that works on one call at a time does not read meanwhile."""
CLOSE_SECONDS = 0.5
"""How long a stopping server may take to read its pending input."""
LAST_LINES_SECONDS = 20.0
"""Timeout for handling the last lines of a client that has disconnected."""
LOOK_SECONDS = 1.0
"""Poll interval for noticing that the client has disconnected while reading from it is paused."""
LOOK_AGAIN_SECONDS = 0.005
"""Poll interval while waiting for the server to exit."""
SERVER_SECONDS = 0.5
"""How long a server that closed its output may take to end, before the proxy stops waiting for its exit code."""
SHUT_DOWN_SECONDS = 15.0
"""How long the end may take. After a third of it the upstream is killed, if it is still there."""


class Proxy:
    """One run of `adjourn proxy`."""

    def __init__(self, options: ProxyOptions, workspace: Workspace, contract: Contract, upstream: Upstream) -> None:
        self.report = StderrLog(as_json=bool(options["--log-json"]))
        self.workspace = workspace
        client_options = ClientOptions(
            root=workspace.root,
            tree=workspace.tree,
            start="" if workspace.start == workspace.tree else workspace.start,
            contract=contract,
            store=options["--store"],
            task=options["--task"],
            take_over=bool(options["--take-over"]),
            auto_confirm=bool(options["--auto-confirm"]),
            brief_bytes=int(options["--brief-bytes"]),
            server=options["--name"],
            command=digest(os.fsencode("\0".join(options.upstream)))[:16],
        )
        self.upstream = upstream
        self.server_stderr = ServerStderr(upstream.stderr)
        self.loop = Loop(self._failed)
        self.context = ClientContext(client_options, on_event=self._client_event)
        relay = self.relay = Relay(
            self.loop,
            self.context,
            self.report,
            RelayOptions(
                errors=options["--errors"],
                tool_names=options["--tool-names"],
                meta_tools=options["--meta-tools"],
                confirm_seconds=int(options["--confirm-timeout"]),
                has_notices=not options["--no-budget-notice"],
            ),
        )
        self.connection, self.gate, self.answers = relay.connection, relay.gate, relay.answers
        self.connection.client = PipeWriter(self.loop, CLIENT_OUT, self._nobody_reads)
        self.connection.server = PipeWriter(self.loop, upstream.stdin, self.connection.not_read)
        self.connection.why_unread = self._why_unread
        self._client = LineReader(CLIENT_IN, frames.MAX_MESSAGE_BYTES)
        self._server = LineReader(upstream.stdout, MAX_UPSTREAM_MESSAGE)
        self._ended = ""
        self._is_read = False
        """Whether the upstream's output was read to its end."""
        self._has_crashed = False
        """Whether the upstream ended, and this proxy continues without it."""

    def run(self) -> int:
        """Relay until an end; returns the exit code."""
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, self._signalled)
        blocked = _unblock(CLIENT_OUT)
        try:
            self._announce()
            self.loop.watch(CLIENT_IN, POLLIN, self._read_client)
            self.loop.watch(self.upstream.stdout, POLLIN, self._read_upstream)
            self.loop.after(HEARTBEAT_SECONDS, self._beat)
            self.loop.run()
            return self._shut_down()
        finally:
            if blocked:  # whoever shares this end of the pipe continues with it as it was
                os.set_blocking(CLIENT_OUT, True)

    def _announce(self) -> None:
        contract = self.context.watch.contract
        policy = contract.policy
        workspace = self.workspace
        if workspace.start != workspace.root:
            self.report.event("workspace", workspace.root)
        for note in workspace.skipped:
            self.report.event("warning", note)
        self.report.event("policy", contract.policy_source)
        if contract.contract_source:
            self.report.event("contract", contract.contract_source)
        for title, rules in (("allow", policy.allow), ("deny", policy.deny), ("confirm", policy.confirm)):
            if rules:
                self.report.event(title, ", ".join(rule.pattern for rule in rules))
        budgets = [] if policy.budget is None else [f"calls={policy.budget}"]
        budgets += [rule.text for rule in policy.workspace_budgets]
        self.report.event("budget", ", ".join(budgets) or "no limit")
        if policy.observe:
            self.report.event("mode", "mode observe: nothing is blocked; what the policy would block is recorded")
        for finding in contract.findings:
            self.report.event("warning", f"{finding.code} {finding.source}:{finding.span.line} {finding.message}")
        if os.isatty(CLIENT_IN):
            self.report.event(
                "terminal", "waits for an MCP client on stdin: let a client start this command; Ctrl-C ends it"
            )
        try:
            self.report.event("task", self.context.task.claim())
            self.context.meet_servers()
        except AdjournError as error:
            self.report.event("store.error", f"{error}; calls with effects are refused until it can be used")

    def _client_event(self, event: str, text: str) -> None:
        """Of the worker, or of the loop."""
        self.report.event(event, text)
        if event == "policy.changed":
            self.loop.soon(self.relay.tools.compare)
            self.loop.soon(self.relay.tools.report_rules)

    def _failed(self, error: Exception) -> None:
        """A defect of ours must not end the session."""
        self.report.event("proxy.bug", f"{type(error).__name__}: {error}")

    # --- the two directions

    def _read_client(self, events: int) -> None:
        del events
        if not self.relay.may_read_client():
            self.loop.pause(CLIENT_IN, POLLIN, self.relay.may_read_client)
            self.loop.after(LOOK_SECONDS, self._look_for_client)
            return
        lines = self._client.take()
        if lines is None:
            self.loop.unwatch(CLIENT_IN)
            self._end("client-eof")
        elif lines:
            self.gate.handle(lines)
            if not self.relay.is_tidy_due:
                self.relay.is_tidy_due = True
                self.loop.after(SETTLE_SECONDS, self.relay.tidy)

    def _look_for_client(self) -> None:
        """Whether a client that is not read has gone: its last lines may take a while, and no longer."""
        if not self.relay.may_read_client():
            hang_up = poll()
            hang_up.register(CLIENT_IN, 0)
            if hang_up.poll(0):
                self.loop.after(LAST_LINES_SECONDS, partial(self._end, "client-eof"))
            else:
                self.loop.after(LOOK_SECONDS, self._look_for_client)

    def _read_upstream(self, events: int) -> None:
        del events
        if not self.relay.may_read_server():
            self.loop.pause(self.upstream.stdout, POLLIN, self.relay.may_read_server)
            return
        lines = self._server.take()
        if lines is None:
            self.loop.unwatch(self.upstream.stdout)
            self._is_read = True
            if self._lists_for_others():
                self._outlive_server()
            else:
                self._end("upstream-exit")
        elif lines:
            self.answers.handle(lines)
            if not self.relay.is_tidy_due:
                self.relay.is_tidy_due = True
                self.loop.after(SETTLE_SECONDS, self.relay.tidy)

    def _lists_for_others(self) -> bool:
        try:
            return self.context.served.lists_for_others()
        except AdjournError as error:
            self.report.event("store.error", str(error))
            return False

    def _outlive_server(self) -> None:
        """Continue with the meta-tools: other proxies have left them to this one, and most clients read a list of tools only once.
        Each request to the server is answered with an error from now on.
        """
        self._has_crashed = True
        self._note_crash(SERVER_SECONDS)
        self.connection.server.lose()
        why = self._why_ended()
        for request in list(self.connection.requests.values()):
            if request.is_sent:
                self.connection.fail(request, f"{why}; {NOT_KNOWN}", "no-answer")

    def _why_unread(self) -> str:
        """Why the server no longer reads its input."""
        return UNREAD if self.upstream.wait(SERVER_SECONDS) is None else self._why_ended()

    def _why_ended(self) -> str:
        """How the server ended, and the last that it wrote to stderr."""
        self.server_stderr.finish()
        return f"the MCP server {_ending(self.upstream.wait(0))}{self.server_stderr.last()}"

    def _nobody_reads(self, unread: list[Unread]) -> None:
        """The client has exited, which the reading side notices. It may lack the last answers."""
        del unread
        for session in self.context.sessions:
            session.is_unread = True

    def _note_crash(self, seconds: float) -> None:
        code, signum = _exit_of(self.upstream.wait(seconds))
        self.report.event("upstream.crashed", code=code, signal=signum)
        self._note(kinds.UpstreamCrashed(code=code, signal=signum))

    def _beat(self) -> None:
        self.loop.after(HEARTBEAT_SECONDS, self._beat)
        self.relay.beat()
        if time.monotonic() - self.connection.server.since > UNREAD_SECONDS:
            self.connection.server.lose()

    # --- the end

    def _signalled(self, signum: int, frame: FrameType | None) -> None:
        del frame
        self._end(f"signal-{signal.Signals(signum).name}")

    def _end(self, reason: str) -> None:
        if not self._ended:
            self._ended = reason
            Thread(target=self._insist, daemon=True).start()
            self.loop.stop()

    def _insist(self) -> None:
        """See to it that the process ends, though a store or a disk that hangs can block the other threads.

        What the client received is in the store by then, and the next session finds this one dead.
        """
        time.sleep(SHUT_DOWN_SECONDS / 3)
        with suppress(ProcessLookupError):
            self.upstream.kill()
        time.sleep(SHUT_DOWN_SECONDS * 2 / 3)
        os._exit(1)

    def _shut_down(self) -> int:
        reason = self._ended
        self.report.event("ending", reason)
        self.context.served.stop_listing()  # at once: the client may have started this server again
        crashed = reason == "upstream-exit"
        self._end_upstream()
        why = self._why_ended() if crashed else "the session ended"
        self.relay.leave_unanswered(why)
        self.connection.client.drain(SHUT_DOWN_SECONDS / 3)
        if crashed:
            self._note_crash(0)
        self.relay.end_sessions(reason)
        self.context.close(reason)
        self.server_stderr.finish()
        if crashed:
            refuse_all(why)
        return 1 if crashed or self._has_crashed else 0

    def _end_upstream(self) -> None:
        """Have the upstream end, ever more firmly. What it answers meanwhile is settled and delivered."""
        self.loop.unwatch(CLIENT_IN)
        began, gone = time.monotonic(), NEVER

        def look() -> None:
            nonlocal gone
            now = time.monotonic()
            if not self.connection.server.size or now > began + CLOSE_SECONDS:
                self.connection.server.close()
            if gone == NEVER and self.upstream.press(now - began):
                gone = now
            is_over = (self._is_read and gone < NEVER) or now > gone + REFUSE_SECONDS
            if (is_over and not self.answers.busy and not self.gate.admission.busy) or (
                now > began + SHUT_DOWN_SECONDS / 2
            ):
                self.loop.stop()
            else:
                self.loop.after(LOOK_AGAIN_SECONDS, look)

        self.loop.after(0, look)
        self.loop.run()

    def _note(self, data: kinds.Data) -> None:
        for session in self.context.sessions:
            try:
                session.note(data)
            except AdjournError as error:
                self.report.event("store.error", str(error))


def _unblock(descriptor: int) -> bool:
    """Let no write to a pipe or socket wait. Returns whether that is news; a terminal or a file is left as it is."""
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) or not os.get_blocking(descriptor):
        return False
    os.set_blocking(descriptor, False)
    return True


def _exit_of(status: int | None) -> tuple[int, int]:
    if status is None:
        return 0, 0
    return (os.WEXITSTATUS(status), 0) if os.WIFEXITED(status) else (0, os.WTERMSIG(status))


def _ending(status: int | None) -> str:
    """How a server ended, as a predicate."""
    code, signum = _exit_of(status)
    if status is None:
        return "closed its output"
    if not signum:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(signum).name}"
    except ValueError:
        return f"was ended by signal {signum}"


def run(options: ProxyOptions, workspace: Workspace, contract: Contract, upstream: Upstream) -> int:
    """Run the proxy in front of an upstream that was just started; returns the exit code."""
    gc.freeze()  # what was loaded stays: no collection needs to examine it again
    gc.set_threshold(GC_THRESHOLD)
    return Proxy(options, workspace, contract, upstream).run()


def refuse(options: ProxyOptions, error: BrokenContractError | UpstreamStartError) -> int:
    """Report why no server was started, to people and to the client; returns the exit code."""
    report = StderrLog(as_json=bool(options["--log-json"]))
    message = error.message
    if isinstance(error, BrokenContractError):
        for finding in error.findings:
            sys.stderr.write(f"{summary(finding)}\n")
        first = next(finding for finding in error.findings if finding.severity == "error")
        message = f"{message}: {summary(first)}"
    report.event("stopped", str(error))
    refuse_all(message)
    return error.exit_code


def refuse_all(message: str) -> None:
    """Answer every request with an error for a second, so that no client waits for an upstream that never came."""

    def refuse() -> None:
        reader = LineReader(CLIENT_IN, frames.MAX_MESSAGE_BYTES)
        while (lines := reader.read()) is not None:
            for line in lines:
                try:
                    read = frames.read(line, frames.Message)
                except frames.FrameError:
                    continue
                if isinstance(read, frames.Message) and read.is_request:
                    os.write(CLIENT_OUT, frames.error(read.id, frames.UPSTREAM_GONE, message))

    thread = Thread(target=refuse, daemon=True)
    thread.start()
    thread.join(REFUSE_SECONDS)
