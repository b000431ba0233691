"""Settings that start an adjourn that no longer exists at that path.

Owns: the change that names the one that runs here. Must never: change a command that starts anything, or write.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

from adjourn.errors import AdjournError
from adjourn.host import find
from adjourn.setup.checks import hook_commands, listed_entries
from adjourn.setup.files import read_plain
from adjourn.setup.planning import SettingsChange
from adjourn.setup.servers import hook_words, names_proxy
from adjourn.setup.starting import cache_around


def moved_programs(root: str) -> Iterator[SettingsChange]:
    """A change for each file of the workspace that names a path of adjourn at which nothing is; none if none that lasts is on PATH."""
    found = find("adjourn", root) or ""
    lasts = found and not cache_around(os.path.dirname(os.path.dirname(os.path.realpath(found))))
    programs = [(path, (hook_words(command) or [""])[0]) for path, command in hook_commands(root)]
    programs += [(one.path, one.server["command"]) for one in listed_entries(root) if names_proxy(one.server)]
    gone: dict[str, set[str]] = {}
    for path, program in programs:
        if os.path.isabs(program) and os.path.basename(program) == "adjourn" and not os.path.exists(program):
            gone.setdefault(path, set()).add(program)
    for path, names in gone.items() if lasts else ():
        whole = os.path.join(root, path)
        try:
            before = after = read_plain(whole, root)
        except AdjournError:
            continue
        for name in sorted(names):
            whole_path = rf"(?<![\w./-]){re.escape(json.dumps(name)[1:-1])}(?![\w./-])"
            after = re.sub(whole_path, lambda _: json.dumps(found)[1:-1], after)
        yield SettingsChange(
            whole, before, after, [f"start {found} in the place of {', '.join(sorted(names))}"]
        )
