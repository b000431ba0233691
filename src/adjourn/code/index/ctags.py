"""Universal Ctags, for languages without a grammar, where it is installed.

Owns: running it, once for a whole list of files. Must never: let a project's own ctags options be read.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import msgspec

from adjourn.code.index.outline import MAX_SIGNATURE, Symbol
from adjourn.host import find, for_others, outside

_SECONDS = 120
_MAX_NAME = 200
_NO_OPTIONS = "--options=NONE"
"""Has to come first: else the options of the folder (`.ctags.d`) are read before it."""
# What these find in prose and settings is not a definition of code.
_NOT = "-Man,-Iniconf,-Diff,-Passwd,-JSON,-ReStructuredText,-Asciidoc,-Make,-Autoconf,-Automake,-LdScript,-RpmSpec"


class _Tag(msgspec.Struct):
    path: str = ""
    name: str = ""
    kind: str = ""
    line: int = 0
    end: int = 0
    scope: str = ""
    pattern: str = ""
    language: str = ""


@cache
def program(workspace: str) -> str | None:
    """The path of Universal Ctags, outside the workspace; None if not installed. Other ctags programs do not count."""
    found = find("ctags", workspace) or find("universal-ctags", workspace)
    if found is None:
        return None
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            [found, _NO_OPTIONS, "--list-features"], capture_output=True, text=True, timeout=5, check=False
        )
        if "json" in done.stdout:
            return found
    return None


def symbols(paths: Sequence[str], *, cwd: str) -> dict[str, list[Symbol]]:
    """Symbols by path; empty if ctags is missing or fails: a file without symbols is still searched."""
    executable = program(cwd)
    wanted = [path for path in paths if "\\" not in path]
    if executable is None or not wanted:
        return {}
    command = [
        executable,
        _NO_OPTIONS,
        f"--languages={_NOT}",
        "--output-format=json",
        "--fields=+neZsP",
        "--links=no",
    ]
    try:
        done = subprocess.run(
            [*command, "-f", "-", "-L", "-"],
            cwd=cwd, input="\n".join(f"./{path}" for path in wanted).encode(errors="surrogateescape"),
            capture_output=True, timeout=_SECONDS, check=False, env=outside(for_others(os.environ), cwd),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return {}
    found: dict[str, list[Symbol]] = {}
    for line in done.stdout.splitlines():
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            tag = msgspec.json.decode(line, type=_Tag)
            if tag.name and tag.line:
                found.setdefault(tag.path.removeprefix("./"), []).append(_symbol(tag))
    return found


def _symbol(tag: _Tag) -> Symbol:
    pattern = " ".join(tag.pattern.removeprefix("/^").removesuffix("/").removesuffix("$").split())
    return Symbol(
        name=tag.name[:_MAX_NAME],
        kind=tag.kind or "symbol",
        scope=tag.scope.replace("::", "."),
        line=tag.line,
        end_line=max(tag.end, tag.line),
        start=0,
        end=0,
        signature=pattern[:MAX_SIGNATURE],
        name_start=-1,
    )
