"""Settings of the user in a TOML file that nobody else may write.

Owns: reading one, with its bounds. Must never: read what another account can change.
"""

from __future__ import annotations

import os
import stat
import tomllib
from typing import Generic, NamedTuple, TypeVar

import msgspec

from adjourn.errors import InvalidError

MAX_SETTINGS_BYTES = 64 * 1024
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_MAY_READ = stat.S_IRGRP | stat.S_IROTH

_T = TypeVar("_T")


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
        raise InvalidError(
            f"cannot read {path}: {error.strerror}", "make it readable, or delete it"
        ) from error
    if status.st_uid not in (0, os.getuid()) or status.st_mode & _OTHERS_MAY_WRITE:
        raise InvalidError(f"{path} can be written by other users", f"chmod go-w {path}")
    try:
        if len(data) > MAX_SETTINGS_BYTES:
            raise ValueError(f"more than {MAX_SETTINGS_BYTES} bytes")  # noqa: TRY301  # told like what TOML refuses
        found = msgspec.convert(tomllib.loads(data.decode()), kind)
    except (ValueError, RecursionError) as error:  # msgspec's and TOML's are ValueErrors
        raise InvalidError(f"{path}: {error}", remedy) from error
    return OwnSettings(found, bool(status.st_mode & _OTHERS_MAY_READ))
