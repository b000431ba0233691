"""The contract language: texts that say what an agent may do, what is to be reached, and by which steps.

Owns: parsing, checking, pattern matching, permissions and their merge. Must never: know a store, a session or a
wire; read anything but the file it is told to.

A text becomes a lossless tree (`tree`), then a document (`ast`, by `parser`), then findings (`check`) and
permissions (`policy`). Names here are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adjourn.aex.ast import Document
    from adjourn.aex.check import examine
    from adjourn.aex.diagnostics import DIAGNOSTICS, Diagnostic, render
    from adjourn.aex.match import tool_name_ok
    from adjourn.aex.parser import parse
    from adjourn.aex.policy import discover, effective, from_text, load, merge
    from adjourn.aex.rules import Policy, Rule, Verdict
    from adjourn.aex.shape import model
    from adjourn.aex.tree import unparse
    from adjourn.aex.types import check_inputs

__all__ = [
    "DIAGNOSTICS",
    "Diagnostic",
    "Document",
    "Policy",
    "Rule",
    "Verdict",
    "check_inputs",
    "discover",
    "effective",
    "examine",
    "from_text",
    "load",
    "merge",
    "model",
    "parse",
    "render",
    "tool_name_ok",
    "unparse",
]

_HOMES = {
    "DIAGNOSTICS": "diagnostics",
    "tool_name_ok": "match",
    "Diagnostic": "diagnostics",
    "Document": "ast",
    "Policy": "rules",
    "Rule": "rules",
    "Verdict": "rules",
    "check_inputs": "types",
    "discover": "policy",
    "effective": "policy",
    "examine": "check",
    "from_text": "policy",
    "load": "policy",
    "merge": "policy",
    "model": "shape",
    "parse": "parser",
    "render": "diagnostics",
    "unparse": "tree",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
