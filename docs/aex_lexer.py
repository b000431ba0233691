"""Colours for `.aex` on the site: Pygments loads this module for blocks of code named aex.

Owns: what is coloured. Must never: parse; `adjourn.aex` does.
"""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text, Whitespace

__all__ = ["AexLexer"]


class AexLexer(RegexLexer):
    """Each line begins with the word that says what it is."""

    name = "AEX"
    aliases: ClassVar = ["aex"]
    tokens: ClassVar = {
        "root": [
            (r"^[ \t]*#.*$", Comment.Single),
            (r"^([ \t]*)([a-z]+)\b(?![.=(])", bygroups(Whitespace, Keyword)),
            (r'"(\\.|[^"\\\n])*"', String),
            (r"\b(before|after|where|per|in|is|not|and|or|by|as|for|via|every)\b(?![.=(])", Operator.Word),
            (r"\b([a-z_]+)(=)", bygroups(Name.Attribute, Operator)),
            (r"\bv?\d[\d.]*\b", Number),
            (r"[\w.*-]+", Name),
            (r"\s+", Whitespace),
            (r".", Text),
        ]
    }
