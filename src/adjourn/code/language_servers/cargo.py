"""How rust-analyzer is kept from running what a workspace names.

It runs cargo to learn what a project consists of, and cargo reads settings in the workspace that may name programs: a compiler, a
wrapper, variables such as LD_PRELOAD.

Owns: the settings and variables of rust-analyzer, and `refusal`. Must never: let a key of a settings file pass that it does not know.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

from adjourn.errors import AdjournError
from adjourn.host import read_file

SETTINGS: dict[str, Any] = {
    "cargo": {"buildScripts": {"enable": False}},
    "procMacro": {"enable": False},
    "checkOnSave": False,
    "files": {"watcher": "client"},
}
VARIABLES = {"CARGO_NET_OFFLINE": "true", "RUSTC_WRAPPER": "", "RUSTC_WORKSPACE_WRAPPER": "", "RUSTFLAGS": ""}
_HARMLESS = frozenset({"alias", "net", "term", "profile", "http", "future-incompat-report", "cargo-new"})
_BUILD = frozenset({"jobs", "rustflags", "rustdocflags", "target-dir", "incremental"})
_TARGET = frozenset({"rustflags", "rustdocflags"})
_MAX_SIZE = 1 << 20
_MAX_FOLDERS = 100_000


def refusal(root: str) -> str:
    """Why rust-analyzer may not run in this workspace: the setting that could start a program; "" if there is none."""
    for number, (folder, folders, files) in enumerate(os.walk(root)):
        if number > _MAX_FOLDERS:
            return "the workspace has too many folders to look for settings of cargo"
        folders[:] = [name for name in folders if name != ".git"]
        for name in sorted(files):
            look = _LOOKS.get(name)
            if name in _CONFIG and os.path.basename(folder) != ".cargo":
                continue
            if look and (bad := next(look(os.path.join(folder, name)), "")):
                return f"{os.path.relpath(os.path.join(folder, name), root)} sets {bad}"
    return ""


def _of_config(path: str) -> Iterator[str]:
    """The keys of cargo's settings that may name a program."""
    if (read := _toml(path)) is None:
        yield "what cannot be read"
        return
    for key, value in read.items():
        table = value if isinstance(value, dict) else {}
        if key == "build":
            yield from (f"build.{name}" for name in table if name not in _BUILD)
        elif key == "target":
            for target, inner in table.items():
                names = inner if isinstance(inner, dict) else {"": None}
                yield from (f"target.{target}.{name}" for name in names if name not in _TARGET)
        elif key not in _HARMLESS:
            yield key


def _of_toolchain(path: str) -> Iterator[str]:
    """A toolchain is one that rustup installed, or a folder."""
    read = _toml(path)
    table = (read or {}).get("toolchain", {})
    if (read is None and path.endswith(".toml")) or not isinstance(table, dict) or "path" in table:
        yield "the folder of a toolchain"


def _of_analyzer(_path: str) -> Iterator[str]:
    yield "options of rust-analyzer"


def _toml(path: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(read_file(path, _MAX_SIZE).decode())
    except (AdjournError, OSError, ValueError, RecursionError):
        return None


_CONFIG = frozenset({"config", "config.toml"})
_LOOKS: dict[str, Callable[[str], Iterator[str]]] = {
    **dict.fromkeys(_CONFIG, _of_config),
    "rust-toolchain": _of_toolchain,
    "rust-toolchain.toml": _of_toolchain,
    "rust-analyzer.toml": _of_analyzer,
    ".rust-analyzer.toml": _of_analyzer,
}
FILES = frozenset({"Cargo.toml", "Cargo.lock", *_LOOKS})
"""The names of the files that cargo reads: a running rust-analyzer would run it again after their change."""
