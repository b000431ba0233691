"""Search programs and packages on this machine, for `doctor`.

Owns: `engines`, and the findings about missing ones. Must never: load a grammar.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from adjourn.code.index import analysis, parsing, ripgrep, vectors
from adjourn.code.index.codebase import can_watch
from adjourn.code.index.languages import LANGUAGES
from adjourn.findings import Finding

_EXTRA = "pip install 'adjourn[code]'"


class Engines(msgspec.Struct, frozen=True):
    """Paths of programs (None: not installed), whether each language has a grammar, and missing grammar packages."""

    ripgrep: str | None
    ctags: str | None
    languages: dict[str, bool]
    missing_packages: list[str]
    watching: bool
    vectors: bool


def engines(workspace: str) -> Engines:
    """The engines that are installed, outside the workspace."""
    return Engines(
        ripgrep=ripgrep.program(workspace),
        ctags=analysis.ctags_program(workspace),
        languages={language.name: parsing.has_grammar(language.name) for language in LANGUAGES},
        missing_packages=sorted(set(parsing.missing_grammars().values())),
        watching=can_watch(),
        vectors=vectors.available(),
    )


def findings(found: Engines) -> Iterator[Finding]:
    """A finding for each missing engine. Only ripgrep is required."""
    if found.ripgrep is None:
        yield Finding(
            code="code-ripgrep",
            message="ripgrep is not installed: search_text and search_files fail",
            severity="error",
            help=_EXTRA,
        )
    unread = [name for name, readable in found.languages.items() if not readable]
    if unread:
        yield _warning(
            "code-grammars",
            f"no symbols for {', '.join(unread)}: packages not installed: {', '.join(found.missing_packages)}",
            _EXTRA,
        )
    if not found.watching:
        yield _warning(
            "code-watching",
            "watchfiles is not installed: the index is updated only after a search",
            _EXTRA,
        )
    if found.ctags is None:
        yield _warning(
            "code-ctags",
            f"Universal Ctags is not installed: only the {len(LANGUAGES)} languages with a grammar have symbols",
            "install Universal Ctags for symbols of other languages, such as Perl, R or Haskell",
        )


def _warning(code: str, message: str, remedy: str) -> Finding:
    return Finding(code=code, message=message, severity="warning", help=remedy)
