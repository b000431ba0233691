"""Notifications: what one says to each kind of receiver, and telling one target once, with a bound on time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from xml.sax.saxutils import escape

import msgspec

from adjourn.handover.inbox import WaitingItem
from adjourn.host.executables import find, for_others
from adjourn.host.http import UnansweredError, exchange
from adjourn.log.canonical_json import digest
from adjourn.notify.settings import CommandTarget, Target, WebhookTarget
from adjourn.text.fitting import fit_text
from adjourn.text.redact import visible_line, visible_lines, without_secrets

MAX_TITLE = 200
MAX_DETAILS = 2_000
_KINDS = {
    "approval": "a call waits for approval", "question": "a question waits", "resume-point": "a resume point waits for approval",
    "in-doubt": "a call is in doubt", "decision": "a decision is contested", "blocker": "a blocker waits",
}  # fmt: skip


class Notification(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Something that waits. `id` is the same in every delivery; `answer` the command that says yes, `workspace` the folder's name.

    `links` lead to it on the web page of this machine, by what one wants to do there.
    """

    id: str
    kind: str
    title: str
    task: str
    since: str
    workspace: str
    answer: str = ""
    cause: str = ""
    details: str = ""
    goal: str = ""
    links: dict[str, str] = {}
    priority: str = ""
    until: str = ""

    def without_details(self) -> Notification:
        """The same, without arguments and context."""
        return msgspec.structs.replace(self, details="")

    def line(self) -> str:
        """One line, whose first words are ours."""
        what = _KINDS.get(self.kind, "something waits")
        return f"adjourn: {what} in {self.workspace}: {self.title}" + (
            f" ({self.answer})" if self.answer else ""
        )


def id_of(item: WaitingItem) -> str:
    """The id of the notification of an item, the same at every look."""
    again = item.since if item.kind == "decision" else ""  # one decision may be contested twice
    named = f"{item.kind}\n{item.task}\n{item.record}\n{item.id}\n{again}"
    return f"msg_{digest(named.encode(errors='replace'))[:32]}"


def notification(item: WaitingItem, workspace: str, page: str = "") -> Notification:
    """The notification of an item. `page` is what links to the web page begin with; "" for none."""
    return Notification(
        id=id_of(item),
        kind=item.kind,
        title=_said(item.title),
        task=_said(item.task),
        since=item.since,
        workspace=_said(workspace),
        answer=_said(item.commands[0]) if item.commands else "",
        cause=_said(item.cause),
        details=fit_text(visible_lines(without_secrets(item.context)), MAX_DETAILS),
        goal=_said(item.goal),
        links=_links(item, page) if page else {},
        priority=_said(item.priority),
        until=item.until,
    )


def _links(item: WaitingItem, page: str) -> dict[str, str]:
    if item.kind not in ("approval", "resume-point"):
        return {"answer": f"{page}{item.key}"}
    return {action: f"{page}{item.key}-{action}" for action in ("approve", "deny")}


def sample(workspace: str, since: str) -> Notification:
    """A notification that tells of nothing, to try a target with."""
    return Notification(
        id=f"msg_{digest(since.encode())[:32]}",
        kind="test",
        title="this is a test; nothing waits",
        task="",
        since=since,
        workspace=_said(workspace),
    )


def body(told: Notification, form: str) -> bytes:
    """What a webhook gets: `standard` is the notification as JSON, the others what these chats take."""
    if form == "slack":
        return msgspec.json.encode(
            {"text": _chat(told).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
        )
    if form == "discord":
        return msgspec.json.encode({"content": _chat(told), "allowed_mentions": {"parse": []}})
    return msgspec.json.encode({"type": f"adjourn.waits.{told.kind}", "timestamp": told.since, "data": told})


def _chat(told: Notification) -> str:
    what = _KINDS.get(told.kind, "something waits")
    lines = [f"*adjourn*: {what} in {_code(told.workspace)}: {_code(told.title)}"]
    lines += [
        f"{name}: {_code(value)}"
        for name, value in (("goal", told.goal), ("why", told.cause), ("answer", told.answer))
        if value
    ]
    lines += [f"{action}: {link}" for action, link in told.links.items()]
    if told.details:
        lines.append("```\n" + told.details.replace("`", "'") + "\n```")
    return "\n".join(lines)


def _code(text: str) -> str:
    return "`" + (text.replace("`", "'") or " ") + "`"


def _said(text: str) -> str:
    return fit_text(visible_line(without_secrets(text[: 10 * MAX_TITLE])), MAX_TITLE)


SECONDS = 20.0
MAX_ANSWER = 64 * 1024
PLACEHOLDER = "{text}"
_OSASCRIPT = (
    "-e",
    "on run argv",
    "-e",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "-e",
    "end run",
)


class UndeliveredError(Exception):
    """The target has not confirmed the notification; it may have got it."""


Sender = Callable[[Notification, int], None]
"""Tells a notification at a time (milliseconds). Raises `UndeliveredError`."""


def sender_of(target: Target, workspace: str) -> Sender:
    """What tells a target. Programs are found outside of the folder `workspace`."""
    if isinstance(target, WebhookTarget):
        return partial(_post, target)
    if isinstance(target, CommandTarget):
        return partial(_run_command, target, workspace)
    return partial(_show, workspace)


def signature(key: bytes, name: str, seconds: int, sent: bytes) -> str:
    """What proves to a receiver that the request is ours."""
    signed = f"{name}.{seconds}.".encode() + sent
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def _post(target: WebhookTarget, told: Notification, now: int) -> None:
    sent = body(told if target.details else told.without_details(), target.format)
    seconds, key = now // 1000, target.key()
    headers = {"webhook-id": told.id, "webhook-timestamp": str(seconds)}
    if key:
        headers["webhook-signature"] = signature(key, told.id, seconds, sent)
    try:
        status, _ = exchange("POST", target.url, sent, MAX_ANSWER, SECONDS, headers=headers)
    except UnansweredError as error:
        raise UndeliveredError(str(error)) from error
    if not 200 <= status < 300:
        raise UndeliveredError(f"HTTP status {status}")


def _run_command(target: CommandTarget, workspace: str, told: Notification, now: int) -> None:
    del now
    told = told if target.details else told.without_details()
    command = [target.run[0], *(part.replace(PLACEHOLDER, told.line()) for part in target.run[1:])]
    _start(command, msgspec.json.encode(told), workspace)


def _show(workspace: str, told: Notification, now: int) -> None:
    del now
    title, _, rest = told.line().partition(": ")
    if sys.platform == "darwin":
        _start(["osascript", *_OSASCRIPT, title, rest], b"", workspace)
    else:
        _start(["notify-send", "--app-name=adjourn", "--", title, escape(rest)], b"", workspace)


def _start(command: Sequence[str], given: bytes, workspace: str) -> None:
    """Run a command to its end: from the root folder, with no variable of ours, in a group of its own that ends with it."""
    program = find(command[0], workspace)
    if program is None:
        raise UndeliveredError(f"there is no program {command[0]!r} on PATH")
    try:
        started = subprocess.Popen(
            [program, *command[1:]],
            cwd="/",
            env=for_others(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise UndeliveredError(f"cannot start {command[0]!r}: {error}") from error
    with started:
        try:
            started.communicate(given, timeout=SECONDS)
        except subprocess.TimeoutExpired as error:
            raise UndeliveredError(f"{command[0]!r} did not end within {SECONDS:.0f} s") from error
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(started.pid, signal.SIGKILL)
    if started.returncode:
        raise UndeliveredError(f"{command[0]!r} exited with {started.returncode}")
