"""Conditions of `check` and `if`: the six supported forms, distinguished as in v0.

Owns: which form a condition has and which names it uses. Must never: evaluate one, judge what it means.
"""

from __future__ import annotations

import msgspec

from adjourn.aex.text import BLANK, Word

PATH = "path"
HAS_TEXT = "has text"
HAS_CITATIONS = "has citations"
NOT_INCLUDE_TEXT = "does not include text"
NOT_INCLUDE = "does not include"
TOUCHES_ONLY = "touches only"
VALID_DIFF = "valid diff"


class Condition(msgspec.Struct, frozen=True):
    """`subject` is a dotted path; `other` the second one of "does not include" and "touches only"; `text` the quoted
    literal of the two text forms.
    """

    form: str
    subject: Word
    other: Word | None = None
    text: str = ""


def parse_condition(word: Word) -> Condition | None:
    """The form of a condition, None for an unsupported one."""
    if not _blank_in(word.text):
        return Condition(PATH, word) if word.text else None
    for verb, read in (
        (" has ", _has),
        (" does not include ", _not_include),
        (" touches only ", _touches),
        (" is valid diff", _valid),
    ):
        at = word.text.find(verb)
        if at > 0:
            found = read(word.strip(0, at), word.strip(at + len(verb)))
            if found is not None:
                return found
    return None


def _has(subject: Word, rest: Word) -> Condition | None:
    literal = _literal(rest.text)
    if literal is not None:
        return Condition(HAS_TEXT, subject, text=literal)
    form = {"citations": HAS_CITATIONS, "valid diff": VALID_DIFF}.get(rest.text)
    return Condition(form, subject) if form else None


def _not_include(subject: Word, rest: Word) -> Condition | None:
    literal = _literal(rest.text)
    if literal is not None:
        return Condition(NOT_INCLUDE_TEXT, subject, text=literal)
    return None if _blank_in(rest.text) else Condition(NOT_INCLUDE, subject, rest)


def _touches(subject: Word, rest: Word) -> Condition | None:
    return None if _blank_in(rest.text) else Condition(TOUCHES_ONLY, subject, rest)


def _valid(subject: Word, rest: Word) -> Condition | None:
    return None if rest.text else Condition(VALID_DIFF, subject)


def _literal(text: str) -> str | None:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else None


def _blank_in(text: str) -> bool:
    return not text or any(blank in text for blank in BLANK)
