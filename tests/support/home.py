"""A workspace beside an empty home folder, for `adjourn init`."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

from support.proxy import Done, run

BIN = str(Path(sys.executable).parent)


class Home:
    """A workspace, and an empty home folder but for what a test puts there. The `adjourn` on PATH is `program`."""

    def __init__(self, path: Path, program: str = f"{BIN}/adjourn") -> None:
        self.root, self.home = path / "work", path / "home"
        self.root.mkdir()
        self.home.mkdir()
        (path / "bin").mkdir()
        os.symlink(program, path / "bin" / "adjourn")
        self.environment = {
            "PATH": f"{path}/bin:/usr/bin:/bin", "HOME": str(self.home), "ADJOURN_CONFIG": str(path / "config"), "LANG": "C.UTF-8",
        }  # fmt: skip

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        file = (self.home / path[2:]) if path.startswith("~/") else self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def run(self, *arguments: str, **env: str) -> Done:
        return run(*arguments, cwd=self.root, env=self.environment | env)

    def files(self) -> dict[str, tuple[bytes, int]]:
        return {
            str(path): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
            for place in (self.root, self.home)
            for path in sorted(place.rglob("*"))
            if path.is_file()
        }

    def notes(self) -> str:
        return json.dumps(self.run("init", "--json").json["notes"])
