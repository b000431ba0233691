"""What a person sets for the account, in a TOML file that nobody else may write: who may speak for them, and which transcripts are read.

The file is in the account's home folder, which the user database names: no environment variable, and no file in a workspace, can be it.
A list of sessions reads it, too, so nothing here imports what knows tasks or clients.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from adjourn.errors import InvalidError

SETTINGS = ".config/adjourn/settings.toml"
"""In the account's home folder."""
MAX_SETTINGS_BYTES = 64 * 1024
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_MAY_READ = stat.S_IRGRP | stat.S_IROTH

_T = TypeVar("_T")


class Waivers(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The settings: `true`, or the folders in which everything that a command changes must be.

    `allow_unattended` waives the terminal, `allow_inside_client` lets descendants of a governed client speak. `ignore_transcripts` are the
    folders whose sessions nobody reads from their clients' transcripts.
    """

    allow_unattended: bool | list[str] = False
    allow_inside_client: bool | list[str] = False
    ignore_transcripts: bool | list[str] = False

    def ignores(self, folder: str) -> bool:
        """Whether the transcripts of sessions in a folder are not to be read."""
        return bool(self.ignore_transcripts) and covers(self.ignore_transcripts, [os.path.realpath(folder)])


class OwnSettings(NamedTuple, Generic[_T]):
    """What a file sets, and whether other accounts may read it."""

    settings: _T
    others_may_read: bool


def read_own_toml(path: str, kind: type[_T], remedy: str) -> OwnSettings[_T] | None:
    """The settings in a file, None where there is none; `remedy` is for who wrote something else into it.

    Raises `InvalidError` for a file that cannot be read, or that others may write.
    """
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(MAX_SETTINGS_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidError(f"cannot read {path}: {error.strerror}", "make it readable, or delete it") from error
    if status.st_uid not in (0, os.getuid()) or status.st_mode & _OTHERS_MAY_WRITE:
        raise InvalidError(f"{path} can be written by other users", f"chmod go-w {path}")
    import tomllib  # few accounts have settings

    try:
        if len(data) > MAX_SETTINGS_BYTES:
            raise ValueError(f"more than {MAX_SETTINGS_BYTES} bytes")  # noqa: TRY301  # told like what TOML refuses
        settings = msgspec.convert(tomllib.loads(data.decode()), kind)
    except (ValueError, RecursionError) as error:  # msgspec's and TOML's are ValueErrors
        raise InvalidError(f"{path}: {error}", remedy) from error
    return OwnSettings(settings, bool(status.st_mode & _OTHERS_MAY_READ))


def home() -> str:
    """The account's home folder; "" for a user without an account."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def read_waivers() -> Waivers:
    """The settings, if there are any. Raises `InvalidError` for those that cannot be read, or that others may write."""
    path = settings_path()
    remedy = (
        "set only allow-unattended, allow-inside-client and ignore-transcripts, each to true or to a list of folders"
    )
    found = read_own_toml(path, Waivers, remedy) if os.path.isabs(path) else None
    return found.settings if found else Waivers()


def settings_path() -> str:
    """The file of the settings."""
    return os.path.join(home(), SETTINGS)


def covers(waiver: bool | list[str], changes: Sequence[str]) -> bool:  # a value of the settings
    """Whether a setting waives something for all of these real paths."""
    if isinstance(waiver, bool):
        return waiver
    folders_ = [os.path.realpath(folder).rstrip("/") + "/" for folder in waiver if os.path.isabs(folder)]
    return all(any(f"{path}/".startswith(folder) for folder in folders_) for path in changes)
