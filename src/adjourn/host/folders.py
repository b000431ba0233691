"""Where adjourn keeps what is the user's and no workspace's: keys, and the socket of the process that answers hooks.

Must never: create them, or import anything heavy; a hook asks before it has loaded anything.
"""

from __future__ import annotations

import os
import pwd


def config() -> str:
    """The folder of configuration and keys: `ADJOURN_CONFIG`, else `$XDG_CONFIG_HOME/adjourn`, else `~/.config/adjourn`."""
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    return os.environ.get("ADJOURN_CONFIG") or os.path.join(_absolute(base, "~/.config"), "adjourn")


def account() -> str:
    """The same folder of the account, whatever the environment says: there are the settings that no agent may make."""
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # an account without an entry
        home = os.path.expanduser("~")
    return os.path.join(home, ".config", "adjourn")


def standby() -> str:
    """The folder of the socket over which hooks are answered (`hooks.standby`)."""
    base = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("XDG_CACHE_HOME") or ""
    return os.path.join(_absolute(base, "~/.cache"), "adjourn-hook")


def cache() -> str:
    """The folder of what can be made again."""
    return os.path.join(_absolute(os.environ.get("XDG_CACHE_HOME") or "", "~/.cache"), "adjourn")


def _absolute(path: str, otherwise: str) -> str:
    return path if os.path.isabs(path) else os.path.expanduser(otherwise)
