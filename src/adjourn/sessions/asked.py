"""What the person asked for in a session, and the next step that its agent stated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from adjourn.sessions.claims import sentences
from adjourn.sessions.story import MAX_PROMPTS, Prompt, SessionStory

_CORRECTION = re.compile(r"(?i)\b(?:no|not|don't|do not|never|instead|keep|stop|only|must|wrong|rather|undo|revert)\b")
_FILLER = re.compile(r"(?i)^(?:continue|go[ ]on|yes|y|ok|okay|proceed|go ahead|please continue|weiter)[.!]?$")
_NEXT = re.compile(
    r"(?i)\b(?:next|remaining|still (?:uses|needs|has|to)|todo|left to do|then I (?:will|would)|unknown)\b"
)


_WORD = re.compile(r"[\w./-]{4,}")
KNOWN = 0.8
"""The share of a prompt's words that a summary has which repeats it."""


def orders_of(story: SessionStory) -> list[Prompt]:
    """The delivered prompts that say more than to continue; all of them where none does."""
    prompts = [prompt for prompt in story.prompts if prompt.is_delivered]
    return [prompt for prompt in prompts if not _FILLER.match(prompt.text.strip())] or prompts


@lru_cache(maxsize=MAX_PROMPTS)
def corrects(prompt: str) -> bool:
    """Whether a prompt has a word of somebody who corrects or forbids."""
    return _CORRECTION.search(prompt) is not None


def newest_sentences(story: SessionStory, pattern: re.Pattern[str]) -> Iterator[tuple[str, int]]:
    """The agent's sentences in which a pattern occurs, and their answer's step, the newest first."""
    for answer in reversed(story.answers):
        for sentence in reversed(sentences(answer.text) if not answer.is_summary else ()):
            if pattern.search(sentence):
                yield sentence, answer.step


def stated_next(story: SessionStory) -> tuple[str, int] | None:
    """The agent's newest sentence about a next step, and its answer's step; None for none."""
    return next(newest_sentences(story, _NEXT), None)


def lost_orders(story: SessionStory) -> list[Prompt]:
    """The prompts before the last compaction that its summary does not have: too few of their words occur in it."""
    summary = next((answer for answer in reversed(story.answers) if answer.is_summary), None)
    known = set(_words(summary.text)) if summary is not None else set()
    lost = []
    for prompt in orders_of(story):
        words = _words(prompt.text)
        if (summary is None or prompt.step < summary.step) and len(known.intersection(words)) < KNOWN * len(words):
            lost.append(prompt)
    return lost


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def last_order(story: SessionStory) -> int:
    """The step of the last delivered prompt; 0 for none."""
    return max((prompt.step for prompt in story.prompts if prompt.is_delivered), default=0)
