"""Grammars, loaded when first needed.

Owns: parsers and queries of the languages, and whether a language's wheel is installed. Must never: fetch one.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from adjourn.code.index.languages import LANGUAGES, by_name

if TYPE_CHECKING:
    from tree_sitter import Language, Parser, Query, QueryCursor


@cache
def missing() -> dict[str, str]:
    """The languages whose files cannot be parsed here, each with a package that is not installed."""
    return {
        language.name: module.replace("_", "-")
        for language in LANGUAGES
        for module in (language.module, "tree_sitter")
        if importlib.util.find_spec(module) is None
    }


def has_grammar(name: str) -> bool:
    """Whether files of a language can be parsed here."""
    return by_name(name) is not None and name not in missing()


class Grammar(NamedTuple):
    """The grammar of a language, the query that reads its trees, and the library's classes that use them."""

    language: Language
    query: Query
    parser: type[Parser]
    cursor: type[QueryCursor]


@cache
def load(name: str) -> Grammar:
    """The grammar of a language for which `has_grammar` holds."""
    from tree_sitter import Language, Parser, Query, QueryCursor  # noqa: PLC0415  # an extra

    entry = by_name(name)
    assert entry is not None, name
    grammar = Language(getattr(importlib.import_module(entry.module), entry.grammar)())
    folder = resources.files("adjourn.code") / "queries"
    text = "\n".join((folder / f"{part}.scm").read_text("utf-8") for part in entry.queries)
    return Grammar(grammar, Query(grammar, text), Parser, QueryCursor)
