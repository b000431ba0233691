"""This machine: which programs are started, and how. Nothing here knows of tasks, policies or stores."""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.host.clock import now
    from adjourn.host.environment import for_others
    from adjourn.host.executables import OF_CODE, find, lies_in, outside, strays
    from adjourn.host.files import open_plain, relative_inside
    from adjourn.host.git import GitCommand, distrusting, trusting
    from adjourn.host.http import UnansweredError, address, exchange
    from adjourn.host.keys import KEY_BYTES, secret
    from adjourn.host.process import Process, group_of, lives
    from adjourn.host.python import leave_working_folder
    from adjourn.host.workspace import (
        CHECKPOINTS,
        MAX_NAME,
        check_name,
        create_file,
        locked,
        make_folder,
        open_regular,
        read_file,
        read_inside,
        read_lines,
        remove_file,
        resolve_inside,
        sync_folder,
        write_file,
    )
    from adjourn.host.workspace_store import DEFAULT_STORE, open_at

__all__ = [
    "CHECKPOINTS",
    "DEFAULT_STORE",
    "KEY_BYTES",
    "MAX_NAME",
    "OF_CODE",
    "GitCommand",
    "Process",
    "UnansweredError",
    "address",
    "check_name",
    "create_file",
    "distrusting",
    "exchange",
    "find",
    "for_others",
    "group_of",
    "leave_working_folder",
    "lies_in",
    "lives",
    "locked",
    "make_folder",
    "now",
    "open_at",
    "open_plain",
    "open_regular",
    "outside",
    "read_file",
    "read_inside",
    "read_lines",
    "relative_inside",
    "remove_file",
    "resolve_inside",
    "secret",
    "strays",
    "sync_folder",
    "trusting",
    "write_file",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "CHECKPOINTS": "workspace",
            "DEFAULT_STORE": "workspace_store",
            "GitCommand": "git",
            "KEY_BYTES": "keys",
            "MAX_NAME": "workspace",
            "OF_CODE": "executables",
            "Process": "process",
            "UnansweredError": "http",
            "address": "http",
            "check_name": "workspace",
            "create_file": "workspace",
            "distrusting": "git",
            "exchange": "http",
            "find": "executables",
            "for_others": "environment",
            "group_of": "process",
            "leave_working_folder": "python",
            "lies_in": "executables",
            "lives": "process",
            "locked": "workspace",
            "make_folder": "workspace",
            "now": "clock",
            "open_at": "workspace_store",
            "open_plain": "files",
            "open_regular": "workspace",
            "outside": "executables",
            "read_file": "workspace",
            "read_inside": "workspace",
            "read_lines": "workspace",
            "relative_inside": "files",
            "remove_file": "workspace",
            "resolve_inside": "workspace",
            "secret": "keys",
            "strays": "executables",
            "sync_folder": "workspace",
            "trusting": "git",
            "write_file": "workspace",
        },
    )
