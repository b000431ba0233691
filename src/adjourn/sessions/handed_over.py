"""The page of `adjourn continue` as a session's first prompt: of its words, only those that it quotes as the person's are the person's.

A page that is handed on with a page before it keeps the first mission. What a person wrote before or behind the page is the person's, too.
"""

from __future__ import annotations

import re

BEGINNING = "# Continue a session of "
QUOTE = "  > "
"""Starts each line of a quotation."""
MISSION = "## Mission"
_START = re.compile(rf"^{BEGINNING}.{{1,40}}\n\nAnother agent worked on this before you\.", re.MULTILINE)
_ITEM = re.compile(r"\d{1,4}\. ")


def persons_words(prompt: str) -> list[str]:
    """What the person asked for in a prompt, in its order: the prompt itself, or what the page in it quotes under its mission."""
    page = _START.search(prompt)
    if page is None:
        return [prompt]
    orders, behind = [], []
    sections = prompt[page.start() :].split("\n\n")
    first = next((number for number, section in enumerate(sections) if section.startswith("## ")), len(sections))
    for section in sections[first:]:
        if section.startswith(MISSION):
            orders += _quoted(section)
        elif not section.startswith("## "):
            behind.append(section)
    words = [prompt[: page.start()], *orders, "\n\n".join(behind)]
    return [text.strip() for text in words if text.strip()] or [prompt]


def _quoted(section: str) -> list[str]:
    orders: list[list[str]] = []
    for line in section.splitlines():
        if line.startswith(QUOTE) and orders:
            orders[-1].append(line.removeprefix(QUOTE))
        elif _ITEM.match(line):
            orders.append([])
    return ["\n".join(lines) for lines in orders]
