"""The known word that a mistyped one most likely means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

MAX_LENGTH = 64
MAX_KNOWN = 1_000
_BEGINNING = 3
"""How many characters of a word's beginning are enough to mean it."""
_NONE: Mapping[str, str] = {}


def nearest(word: str, known: Iterable[str], synonyms: Mapping[str, str] = _NONE) -> str:
    """Return the known word that `word` most likely means, or "" if none is near.

    `synonyms` are words of other tools, in lower case, with the known word of the same meaning. Otherwise a word is near if a few
    typing errors lead to it (one in a word of up to 4 characters, three in a long one), or if only it starts so. Letter case and the
    separators `-`, `_`, `.` and blank do not count.
    """
    if not word or len(word) > MAX_LENGTH:
        return ""
    candidates = [each for each in islice(known, MAX_KNOWN) if len(each) <= MAX_LENGTH]
    meant = synonyms.get(word.lower())
    if meant is not None:
        return meant
    folded = _fold(word)
    near = []
    for order, each in enumerate(candidates):
        other = _fold(each)
        allowed = _errors_allowed(max(len(folded), len(other)))
        if abs(len(folded) - len(other)) <= allowed and (errors := _distance(folded, other, allowed)) <= allowed:
            near.append((errors, order, each))
    if near:
        return min(near)[2]
    begun = [each for each in candidates if _fold(each).startswith(folded)]
    return begun[0] if len(begun) == 1 and len(folded) >= _BEGINNING else ""


def did_you_mean(word: str, known: Iterable[str], synonyms: Mapping[str, str] = _NONE) -> str:
    """Return `did you mean WORD?`, or "" if no known word is near."""
    meant = nearest(word, known, synonyms)
    return f"did you mean {meant}?" if meant else ""


def _errors_allowed(length: int) -> int:
    return min(3, (length + 2) // 4) if length > 2 else 0


def _fold(word: str) -> str:
    return word.casefold().translate(_SEPARATORS)


_SEPARATORS = {ord(each): "_" for each in "-. "}


def _distance(left: str, right: str, most: int) -> int:
    """The fewest insertions, deletions, replacements and swaps of neighbours from one text to the other, if at most `most`.

    Optimal string alignment (Boytsov 2011, section 2.2), for the part of its table that `most` errors can reach.
    """
    too_many = most + 1
    before = row = dict(enumerate(range(too_many)))
    for i, char in enumerate(left, 1):
        earlier, before, row = before, row, {}
        for j in range(max(0, i - most), min(len(right), i + most) + 1):
            cost = min(before.get(j, too_many), row.get(j - 1, too_many)) + 1
            if j:
                cost = min(cost, before.get(j - 1, too_many) + (char != right[j - 1]))
            if i > 1 and j > 1 and char == right[j - 2] and left[i - 2] == right[j - 1]:
                cost = min(cost, earlier.get(j - 2, too_many) + 1)
            row[j] = cost
        if min(row.values(), default=too_many) > most:
            return too_many
    return min(row.get(len(right), too_many), too_many)
