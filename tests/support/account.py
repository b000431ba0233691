"""An account of its own for the programs under test: its home folder, as the user database names it, and its PIN.

Owns: that folder, and having programs believe in it. Must never: touch the home folder of whoever runs the tests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from adjourn.host.pin import AccountPin

PIN, WRONG = "tulip-42", "violet-42"
CHEAP = 1 << 4
_HOME = "TESTED_ACCOUNT_HOME"
_PATCH = f"""
import os, pwd
_found = pwd.getpwuid
def getpwuid(uid):
    entry = list(_found(uid))
    entry[5] = os.environ["{_HOME}"]
    return pwd.struct_passwd(entry)
pwd.getpwuid = getpwuid
"""


class Account:
    """A home folder below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "account"
        self.home.mkdir()
        self._patch = folder / "database"
        self._patch.mkdir()
        (self._patch / "sitecustomize.py").write_text(_PATCH)
        self.pin = AccountPin(str(self.home / ".config" / "adjourn"))

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """The environment of a program of this account."""
        return {**before, _HOME: str(self.home), "PYTHONPATH": str(self._patch)}

    def set_pin(self, pin: str = PIN) -> None:
        """Set or change the PIN, at little cost."""
        self.pin.set(pin, expect=self.pin.state(), cost=CHEAP)

    def write_settings(self, text: str) -> Path:
        """Write the account's settings."""
        path = self.home / ".config" / "adjourn" / "settings.toml"
        os.makedirs(path.parent, exist_ok=True)
        path.write_text(text)
        return path
