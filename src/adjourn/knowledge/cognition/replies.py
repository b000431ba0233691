"""Read a model's statements from its reply: lines that begin with FACT, ASSUMPTION, QUESTION or INTENT.

A line counts outside code fences, with or without a list mark and emphasis. A claim of a model is an inference, never more.

Owns: reading replies, and how they change a working state. Must never: trust a reply more than that, or fail on one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal, NamedTuple, cast

from adjourn.knowledge.model import Tree
from adjourn.log import digest
from adjourn.text import clean

Tag = Literal["FACT", "ASSUMPTION", "QUESTION", "INTENT"]

MAX_STATEMENTS = 200
"""Statements that are read of one reply."""
MAX_STATEMENT = 2_000
"""Characters of one statement. The rest is cut."""
SOURCE, CONFIDENCE = "inference", 0.7
"""The source and the confidence of a fact that a model stated."""

_EMPHASIS = r"(?:\*\*|__)?"
_LINE = re.compile(
    rf" {{0,8}}(?:(?:[-*+•]|\d{{1,4}}[.)])[ \t]+)?{_EMPHASIS}"
    rf"(FACT|ASSUMPTION|QUESTION|INTENT){_EMPHASIS}[ \t]?:{_EMPHASIS}[ \t]*(\S.*)"
)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


class TaggedStatement(NamedTuple):
    """A statement of a reply, and its tag."""

    tag: Tag
    text: str


def parse_reply(text: str) -> list[TaggedStatement]:
    """The statements of a reply, in order. Never raises."""
    found: list[TaggedStatement] = []
    fence = ""
    for line in clean(text).split("\n"):
        fence, is_fence = _fence_after(fence, line)
        match = None if fence or is_fence else _LINE.fullmatch(line)
        if match is None:
            continue
        said = match[2].strip().removesuffix("**").removesuffix("__").strip()[:MAX_STATEMENT]
        if said:
            found.append(TaggedStatement(cast("Tag", match[1]), said))
        if len(found) == MAX_STATEMENTS:
            break
    return found


def _fence_after(fence: str, line: str) -> tuple[str, bool]:
    """The code fence that is open after a line (empty: none), and whether the line is one."""
    match = _FENCE.fullmatch(line)
    if match is None:
        return fence, False
    mark, rest = match[1], match[2]
    if fence:
        closes = mark[0] == fence[0] and len(mark) >= len(fence) and not rest.strip()
        return ("", True) if closes else (fence, False)
    if mark[0] == "`" and "`" in rest:
        return "", False  # a code span
    return mark, True


def apply_reply(state: Tree, statements: Iterable[TaggedStatement], now: int) -> Tree:
    """Add a reply's statements to a working state; the same tree if none is new.

    A FACT in the words of an assumption validates it. A statement in words that the state has already is skipped.
    """
    known, graph = state["epistemicState"], state["intentGraph"]
    facts = Collection(known["facts"], "content", "fact")
    assumptions = Collection(known["assumptions"], "content", "assumption")
    questions = Collection(known["openQuestions"], "question", "question")
    goals = Collection(graph["goals"], "description", "goal")
    for tag, text in statements:
        if tag == "FACT":
            facts.add(text, source=SOURCE, confidence=CONFIDENCE)
            assumptions.change(text, "validatedAt", now)
        elif tag == "ASSUMPTION" and not facts.has(text):
            assumptions.add(text)
        elif tag == "QUESTION":
            questions.add(text, priority="medium", blocksNodes=[])
        elif tag == "INTENT":
            _add_goal(goals, text, graph["rootIntentId"])
    if not any(one.changed for one in (facts, assumptions, questions, goals)):
        return state
    return {
        **state,
        "epistemicState": {
            **known, "facts": facts.items, "assumptions": assumptions.items, "openQuestions": questions.items,
        },
        "intentGraph": {**graph, "goals": goals.items},
    }  # fmt: skip


class Collection:
    """A copy of a list of items with a text, to which items with new texts can be added."""

    def __init__(self, items: Iterable[Tree], name: str, kind: str) -> None:
        self.items = list(items)
        self.changed = False
        self._name = name
        self._kind = kind
        self._places = {
            normalised(item[name]): place for place, item in reversed(list(enumerate(self.items)))
        }
        self._ids = {item["id"] for item in self.items}

    def has(self, text: str) -> bool:
        return normalised(text) in self._places

    def add(self, text: str, **members: object) -> str:
        """Add an item. Returns its id; "" if an item has that text already."""
        key = normalised(text)
        if key in self._places:
            return ""
        name = self._new_id(key)
        self._places[key] = len(self.items)
        self._ids.add(name)
        self.items.append({"id": name, self._name: text, **members})
        self.changed = True
        return name

    def change(self, text: str, member: str, value: object) -> None:
        """Set a member of the item with that text, unless it has that member."""
        place = self._places.get(normalised(text))
        if place is not None and member not in self.items[place]:
            self.items[place] = {**self.items[place], member: value}
            self.changed = True

    def _new_id(self, key: str) -> str:
        """An id derived from the text, so that the same reply gives the same state."""
        whole = digest(key.encode())
        name = f"{self._kind}-{whole[:12]}"
        return name if name not in self._ids else f"{self._kind}-{whole}"


def _add_goal(goals: Collection, text: str, root: str) -> None:
    place = next((place for place, goal in enumerate(goals.items) if goal["id"] == root), None)
    under = {} if place is None else {"parentGoalId": root}
    name = goals.add(text, status="active", subGoalIds=[], priority=1, **under)
    if name and place is not None:
        parent = goals.items[place]
        goals.items[place] = {**parent, "subGoalIds": [*parent["subGoalIds"], name]}


def normalised(text: str) -> str:
    """A text to compare with others: without case, extra blanks, a final full stop, and differences of composed letters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).rstrip(" .")
