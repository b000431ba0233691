"""A terminal that keeps what it is sent: for tests of output, and for the pictures in the documentation."""

from __future__ import annotations

import io
import re

_STYLES = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """A terminal that keeps what it was sent."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError

    def shown(self) -> str:
        return _STYLES.sub("", self.getvalue())
