"""Commands of a person in a workspace, as real processes."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from support.proxy import Done, run

PERSON_SECONDS = 10.0
"""How long a command of a person may take before the test fails."""


class CommandLine:
    """A workspace, a configuration, and the commands that a person runs there."""

    def __init__(self, root: Path, config: Path) -> None:
        self.root = root
        self.config = config

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ADJOURN_")}
        return kept | {"ADJOURN_CONFIG": str(self.config)}

    def run(self, *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Done:
        return run(*arguments, cwd=cwd or self.root, env=self.environment if env is None else env)

    def ok(self, *arguments: str) -> Done:
        done = self.run(*arguments)
        assert done.code == 0, done
        return done

    @property
    def database(self) -> Path:
        return self.root / ".aex" / "adjourn.db"

    def sql(self, statement: str, *values: object) -> list[Any]:
        """Change the store behind everybody's back."""
        with closing(sqlite3.connect(self.database, isolation_level=None)) as connection:
            return connection.execute(statement, values).fetchall()

    def rows(self) -> list[tuple[int, str, bytes]]:
        return self.sql("SELECT seq, hash, data FROM entry ORDER BY seq")

    def seq_of(self, kind: str) -> int:
        return next(seq for seq, _, data in self.rows() if f'"event":"{kind}"'.encode() in data)

    def copy(self, to: Path) -> CommandLine:
        shutil.copytree(self.root.parent, to, dirs_exist_ok=True)
        return CommandLine(to / self.root.name, to / self.config.name)


def is_clean(text: str) -> bool:
    """Whether a text holds printable characters and line feeds only."""
    return all(char.isprintable() or char == "\n" for char in text)


def question(context: CommandLine) -> str:
    """The id of the only open question."""
    name: str = context.ok("approve", "--json").json["questions"][0]["approval"]
    return name
