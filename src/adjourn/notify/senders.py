"""Notifications: who is notified, what one says to each kind of receiver, and telling one target once, with a bound on time.

The file `notify.toml` in the user's configuration folder names the receivers:

    kinds = ["approval", "question"]      # of what waits; all kinds without it
    desktop = true

    [[command]]
    run = ["ntfy", "publish", "my-topic", "{text}"]

    [[webhook]]
    url = "https://hooks.example.com/adjourn"
    secret = "whsec_…"

A file that an agent may write (of a workspace, or writable by others) is not read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal
from xml.sax.saxutils import escape

import msgspec

from adjourn.errors import InvalidError, UsageError
from adjourn.handover.inbox import WaitingItem, WaitingKind
from adjourn.host import keys
from adjourn.host.executables import find, for_others
from adjourn.host.http import UnansweredError, address, exchange
from adjourn.host.own_settings import read_own_toml
from adjourn.log.canonical_json import digest
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
        """One line that starts with our own words."""
        what = _KINDS.get(self.kind, "something waits")
        return f"adjourn: {what} in {self.workspace}: {self.title}" + (f" ({self.answer})" if self.answer else "")


def id_of(item: WaitingItem) -> str:
    """The id of the notification of an item, the same at every look."""
    again = item.since if item.kind == "decision" else ""  # one decision may be contested twice
    named = f"{item.kind}\n{item.task}\n{item.record}\n{item.id}\n{again}"
    return f"msg_{digest(named.encode(errors='replace'))[:32]}"


def notification(item: WaitingItem, workspace: str, page: str = "") -> Notification:
    """The notification of an item. `page` is what links to the web page start with; "" for none."""
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


def body(message: Notification, form: str) -> bytes:
    """What a webhook gets: `standard` is the notification as JSON, the others what these chats take."""
    if form == "slack":
        return msgspec.json.encode(
            {"text": _chat(message).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
        )
    if form == "discord":
        return msgspec.json.encode({"content": _chat(message), "allowed_mentions": {"parse": []}})
    return msgspec.json.encode({"type": f"adjourn.waits.{message.kind}", "timestamp": message.since, "data": message})


def _chat(message: Notification) -> str:
    what = _KINDS.get(message.kind, "something waits")
    lines = [f"*adjourn*: {what} in {_code(message.workspace)}: {_code(message.title)}"]
    lines += [
        f"{name}: {_code(value)}"
        for name, value in (("goal", message.goal), ("why", message.cause), ("answer", message.answer))
        if value
    ]
    lines += [f"{action}: {link}" for action, link in message.links.items()]
    if message.details:
        lines.append("```\n" + message.details.replace("`", "'") + "\n```")
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


def _post(target: WebhookTarget, message: Notification, now: int) -> None:
    sent = body(message if target.details else message.without_details(), target.format)
    seconds, key = now // 1000, target.key()
    headers = {"webhook-id": message.id, "webhook-timestamp": str(seconds)}
    if key:
        headers["webhook-signature"] = signature(key, message.id, seconds, sent)
    try:
        status, _ = exchange("POST", target.url, sent, MAX_ANSWER, SECONDS, headers=headers)
    except UnansweredError as error:
        raise UndeliveredError(str(error)) from error
    if not 200 <= status < 300:
        raise UndeliveredError(f"HTTP status {status}")


def _run_command(target: CommandTarget, workspace: str, message: Notification, now: int) -> None:
    del now
    message = message if target.details else message.without_details()
    command = [target.run[0], *(part.replace(PLACEHOLDER, message.line()) for part in target.run[1:])]
    _start(command, msgspec.json.encode(message), workspace)


def _show(workspace: str, message: Notification, now: int) -> None:
    del now
    title, _, text = message.line().partition(": ")
    if sys.platform == "darwin":
        _start(["osascript", *_OSASCRIPT, title, text], b"", workspace)
    else:
        _start(["notify-send", "--app-name=adjourn", "--", title, escape(text)], b"", workspace)


def _start(command: Sequence[str], data: bytes, workspace: str) -> None:
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
            started.communicate(data, timeout=SECONDS)
        except subprocess.TimeoutExpired as error:
            raise UndeliveredError(f"{command[0]!r} did not end within {SECONDS:.0f} s") from error
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(started.pid, signal.SIGKILL)
    if started.returncode:
        raise UndeliveredError(f"{command[0]!r} exited with {started.returncode}")


# --- who is notified, and how

FILE = "notify.toml"
MAX_TARGETS = 20
MIN_SECRET_BYTES = 16
SECRET_PREFIX = "whsec_"  # noqa: S105  # not a secret: the prefix of those
_HELP = "`adjourn help notifications` shows what it may say"


class CommandTarget(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """A command that is run for each notification, without a shell. `{text}` in an argument is the text in one line."""

    run: list[str]
    name: str = ""
    details: bool = False

    @property
    def place(self) -> str:
        return "\0".join(self.run)


class WebhookTarget(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """An address that gets each notification as a POST request, signed where there is a secret."""

    url: str
    name: str = ""
    details: bool = False
    secret: str = ""
    format: Literal["standard", "slack", "discord"] = "standard"

    @property
    def place(self) -> str:
        return self.url

    def key(self) -> bytes:
        """The bytes that sign; none without a secret. Raises `InvalidError`."""
        if not self.secret:
            return b""
        try:
            key = base64.b64decode(self.secret.removeprefix(SECRET_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not self.secret.startswith(SECRET_PREFIX) or len(key) < MIN_SECRET_BYTES:
            raise InvalidError(
                f"a secret is not {SECRET_PREFIX} and {MIN_SECRET_BYTES} or more bytes in base64",
                f'make one: echo "{SECRET_PREFIX}$(openssl rand -base64 24)"',
            )
        return key


class DesktopTarget(msgspec.Struct, frozen=True):
    """The notifications of this desktop."""

    name: str = "desktop"
    details: bool = False

    @property
    def place(self) -> str:
        return "desktop"


Target = CommandTarget | WebhookTarget | DesktopTarget


class NotifySettings(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The file."""

    kinds: list[WaitingKind] = []
    desktop: bool = False
    command: list[CommandTarget] = []
    webhook: list[WebhookTarget] = []

    def targets(self) -> Sequence[Target]:
        """Who gets the notifications."""
        return [*self.command, *self.webhook, *[DesktopTarget()] * self.desktop]


def path() -> str:
    """Where the file is."""
    return os.path.join(os.path.dirname(keys.folder()), FILE)


def key_of(target: Target) -> str:
    """What names a target in what is kept: another one does not get its notifications."""
    return digest(f"{type(target).__name__}\0{target.place}".encode(errors="replace"))[:16]


def name_of(target: Target) -> str:
    """How messages name a target: an address may be a secret, its host is none."""
    if target.name:
        return target.name
    return (
        address(target.url).hostname or "webhook"
        if isinstance(target, WebhookTarget)
        else os.path.basename(target.place.split("\0")[0])
    )


def read_settings(root: str) -> NotifySettings:
    """The settings of who runs this. Raises `UsageError` without any, `InvalidError`, `RefusedError` where the workspace `root` has them."""
    keys.check_outside(root)
    file = path()
    own = read_own_toml(file, NotifySettings, _HELP)
    if own is None:
        raise UsageError(f"there is no {file}", "write one; `adjourn help notifications` shows how")
    targets = own.settings.targets()
    if not 0 < len(targets) <= MAX_TARGETS:
        raise InvalidError(f"{file} names {len(targets)} targets (limit {MAX_TARGETS})", "name who is to be notified")
    if len({key_of(target) for target in targets}) < len(targets):
        raise InvalidError(f"{file} names one target twice", "delete one of the two")
    try:
        for hook in own.settings.webhook:
            _check(hook)
        for command in own.settings.command:
            _check_command(command)
    except InvalidError as error:
        raise InvalidError(f"{file}: {error.message}", error.remedy) from error
    if own.others_may_read and any(hook.secret for hook in own.settings.webhook):
        raise InvalidError(f"{file} has a secret, and other users can read it", f"chmod go-rwx {file}")
    return own.settings


def _check_command(command: CommandTarget) -> None:
    if not command.run or not command.run[0]:
        raise InvalidError("a command has no program", 'write run = ["PROGRAM", "ARGUMENT"]')
    if "/" in command.run[0] and not os.path.isabs(command.run[0]):
        raise InvalidError(f"{command.run[0]!r} is a relative path", "give an absolute one, or a name on PATH")


def _check(hook: WebhookTarget) -> None:
    place = address(hook.url)
    hook.key()
    if place.scheme != "https" and not _is_here(place.hostname or ""):
        raise InvalidError(f"the webhook at {place.hostname} is not https", "use https, or http on this machine")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
