"""`aex`: the commands that work on contracts, under their published names, so that configurations go on working.

Owns: which names these are. Must never: hold a command, or do something that `adjourn` does not.
"""

from __future__ import annotations

from typing import Final

from adjourn.cli import app
from adjourn.cli.shared.commands import COMMANDS, LazyGroup
from adjourn.cli.shared.context import example

PUBLISHED: Final = (
    "init", "parse", "check", "compile", "fmt", "sign", "verify", "effective",
    "run", "proxy", "gate", "draft", "review", "classify",
)  # fmt: skip
RENAMED: Final = {"gate": "hook"}
"""Where the published name is not the one of `adjourn`."""

TABLE: Final = {name: COMMANDS[RENAMED.get(name, name)] for name in PUBLISHED}

_HELP = """aex: contracts for agents, by the names they were published with.

Each command is that of `adjourn`, which has more: `adjourn --help`. Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 refused by a
policy or by the holder of a task.
"""

group: Final = LazyGroup(
    name="aex",
    table=TABLE,
    help=_HELP,
    epilog=example("aex init --policy", "aex check .aex/policy.aex", "aex proxy -- npx -y your-mcp-server"),
    params=app.group.params,
    callback=app.group.callback,
    invoke_without_command=True,
    context_settings=app.group.context_settings,
)
