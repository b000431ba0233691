"""Telling one target one notification: once, with a bound on time; whether it succeeded is all that comes back.

A webhook is signed as https://www.standardwebhooks.com says: `webhook-id` is the same at every attempt, so that a receiver can leave out
what it has; `webhook-timestamp` is the time of the attempt; `webhook-signature` is `v1,` and the HMAC-SHA256 of id, time and body.

Owns: these attempts. Must never: start a shell, repeat an attempt, name an address or a secret in a message.
"""

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

from adjourn.host import UnansweredError, exchange, find, for_others
from adjourn.notify.message import Notification, body
from adjourn.notify.settings import CommandTarget, Target, WebhookTarget

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
