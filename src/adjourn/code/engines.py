"""What this machine can search with, for `doctor` and for replies.

Owns: `engines`. Must never: load a grammar.
"""

from __future__ import annotations

import importlib.util

import msgspec

from adjourn.code import ctags, grammars, ripgrep, vectors
from adjourn.code.languages import LANGUAGES


class Engines(msgspec.Struct, frozen=True):
    """Paths of programs (None: not there), languages by whether a grammar reads them, and packages that would add some."""

    ripgrep: str | None
    ctags: str | None
    languages: dict[str, bool]
    missing_packages: list[str]
    watching: bool
    vectors: bool


def engines() -> Engines:
    """What is installed here."""
    return Engines(
        ripgrep=ripgrep.program(),
        ctags=ctags.program(),
        languages={language.name: grammars.has_grammar(language.name) for language in LANGUAGES},
        missing_packages=grammars.missing(),
        watching=importlib.util.find_spec("watchfiles") is not None,
        vectors=vectors.available(),
    )
