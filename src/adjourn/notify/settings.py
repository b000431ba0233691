"""Who is notified, and how: `notify.toml` in the user's configuration folder.

    kinds = ["approval", "question"]      # of what waits; all kinds without it
    desktop = true

    [[command]]
    run = ["ntfy", "publish", "my-topic", "{text}"]

    [[webhook]]
    url = "https://hooks.example.com/adjourn"
    secret = "whsec_…"

Owns: reading that file. Must never: read one that an agent may write: of a workspace, or writable by others.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
from collections.abc import Sequence
from typing import Literal

import msgspec

from adjourn.errors import InvalidError, UsageError
from adjourn.handover.inbox import WaitingKind
from adjourn.host import keys
from adjourn.host.http import address
from adjourn.host.keys import read_own_toml
from adjourn.log.canonical_json import digest

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
    found = read_own_toml(file, NotifySettings, _HELP)
    if found is None:
        raise UsageError(f"there is no {file}", "write one; `adjourn help notifications` shows how")
    targets = found.settings.targets()
    if not 0 < len(targets) <= MAX_TARGETS:
        raise InvalidError(
            f"{file} names {len(targets)} targets (limit {MAX_TARGETS})", "name who is to be notified"
        )
    if len({key_of(one) for one in targets}) < len(targets):
        raise InvalidError(f"{file} names one target twice", "delete one of the two")
    try:
        for hook in found.settings.webhook:
            _check(hook)
        for command in found.settings.command:
            _check_command(command)
    except InvalidError as error:
        raise InvalidError(f"{file}: {error.message}", error.remedy) from error
    if found.others_may_read and any(hook.secret for hook in found.settings.webhook):
        raise InvalidError(f"{file} has a secret, and other users can read it", f"chmod go-rwx {file}")
    return found.settings


def _check_command(command: CommandTarget) -> None:
    if not command.run or not command.run[0]:
        raise InvalidError("a command has no program", 'write run = ["PROGRAM", "ARGUMENT"]')
    if "/" in command.run[0] and not os.path.isabs(command.run[0]):
        raise InvalidError(
            f"{command.run[0]!r} is a relative path", "give an absolute one, or a name on PATH"
        )


def _check(hook: WebhookTarget) -> None:
    place = address(hook.url)
    hook.key()
    if place.scheme != "https" and not _is_here(place.hostname or ""):
        raise InvalidError(
            f"the webhook at {place.hostname} is not https", "use https, or http on this machine"
        )


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
