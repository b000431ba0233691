"""This machine and its user: clock, ids, keys, processes, files of a workspace, git, HTTP. Must never: know tasks or policies."""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.host.clock import now
    from adjourn.host.environment import common, conceal, for_others
    from adjourn.host.executables import OF_CODE, find, lies_in, outside, strays
    from adjourn.host.files import open_plain, relative_inside
    from adjourn.host.finding import DEFAULT_STORE, Workspace, workspace_of
    from adjourn.host.git import GitCommand, distrusting, trusting
    from adjourn.host.http import UnansweredError, address, exchange
    from adjourn.host.keys import KEY_BYTES, reading_secret, secret
    from adjourn.host.otlp import SpanExporter, TraceSpan
    from adjourn.host.own_settings import read_own_toml
    from adjourn.host.page_link import LINK, page_host, page_link
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
    from adjourn.host.workspace_store import (
        default_store,
        has_store,
        migrate_at,
        open_at,
        shown_store,
        store_file,
    )
    from adjourn.host.worktrees import main_of, top_of

__all__ = [
    "CHECKPOINTS", "DEFAULT_STORE", "KEY_BYTES", "LINK", "MAX_NAME", "OF_CODE", "GitCommand", "Process", "SpanExporter", "TraceSpan",
    "UnansweredError", "Workspace", "address", "check_name", "common", "conceal", "create_file", "default_store", "distrusting", "exchange",
    "find", "for_others", "group_of", "has_store", "leave_working_folder", "lies_in", "lives", "locked", "main_of",
    "make_folder", "migrate_at", "now", "open_at", "open_plain", "open_regular", "outside", "page_host", "page_link", "read_file",
    "read_inside", "read_lines", "read_own_toml", "reading_secret", "relative_inside", "remove_file", "resolve_inside",
    "secret", "shown_store", "store_file", "strays", "sync_folder", "top_of", "trusting", "workspace_of", "write_file",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {
        "clock": ("now",),
        "environment": ("common", "conceal", "for_others"),
        "executables": ("OF_CODE", "find", "lies_in", "outside", "strays"),
        "files": ("open_plain", "relative_inside"),
        "finding": ("DEFAULT_STORE", "Workspace", "workspace_of"),
        "git": ("GitCommand", "distrusting", "trusting"),
        "http": ("UnansweredError", "address", "exchange"),
        "keys": ("KEY_BYTES", "reading_secret", "secret"),
        "otlp": ("SpanExporter", "TraceSpan"),
        "own_settings": ("read_own_toml",),
        "page_link": ("LINK", "page_host", "page_link"),
        "process": ("Process", "group_of", "lives"),
        "python": ("leave_working_folder",),
        "workspace": (
            "CHECKPOINTS", "MAX_NAME", "check_name", "create_file", "locked", "make_folder", "open_regular",
            "read_file", "read_inside", "read_lines", "remove_file", "resolve_inside", "sync_folder",
            "write_file",
        ),
        "workspace_store": ("default_store", "has_store", "migrate_at", "open_at", "shown_store", "store_file"),
        "worktrees": ("main_of", "top_of"),
    })  # fmt: skip
