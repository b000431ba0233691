"""What a client with memory sends in a session of twenty calls, and how much of it a provider's prefix cache has seen before.

    python tests/bench/retold.py        prints the table of tests/bench/RESULTS.md; nothing is timed, so every run prints the same

A request's bytes are its system prompt and its messages, in the order in which the providers' caches compare them. What it shares with the
beginning of the request before it can be read from the cache; the rest is new to the provider.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from adjourn import CognitiveStore, MemoryStore, ResumableAnthropic, ResumableOpenAI
from adjourn.knowledge.brief.compose import REPLY_TAGS
from adjourn.knowledge.cognition.store import SessionOptions
from adjourn.testing import ModelServer, ScriptedReply
from support.clock import Clock

CALLS = 20
PROGRAM = "You release software. " + "Follow the release handbook, section by section. " * 40
"""About 2 KB, as the instructions of a program are."""
KINDS = {"Anthropic": ResumableAnthropic, "OpenAI": ResumableOpenAI}


class Sent(NamedTuple):
    """The bytes of a session: all of them, and those that a prefix cache has seen; how many facts the last request contained."""

    total: int
    seen: int
    told: int


class Elsewhere:
    """A dialect of before: the state, or only the request for tags, at the end of the system prompt."""

    def __init__(self, dialect: Any, told: Callable[[], str]) -> None:
        self._dialect = dialect
        self._told = told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)

    def with_prompts(self, request: dict[str, Any], prompts: Sequence[str], _rules: str, _state: str) -> Any:
        told = self._told()
        if "system" in request:
            return {**request, "system": f"{prompts[0]}\n\n{told}"}
        first, *rest = request["messages"]
        return {**request, "messages": [first, {"role": "system", "content": told}, *rest]}


def replies() -> Iterator[ScriptedReply]:
    for number in range(CALLS):
        text = f"I did step {number}. " + "It took some looking around, and here is how it went. " * 4
        yield ScriptedReply(f"{text}\nFACT: step {number} is done and its log is in logs/{number}.txt")


def sent(kind: type[Any], way: str, *, conversation: bool) -> Sent:
    """Make the calls of one session against a model server on loopback. `way`: "tags", "system" or "now"."""
    memory = CognitiveStore(
        MemoryStore(), "job", goal="Release 2", options=SessionOptions(clock=Clock(10**12, step=1000))
    )
    with ModelServer(*replies()) as server:
        os.environ.update(server.environment())
        client = kind(memory)
        if way != "now":
            tell = memory.prompt if way == "system" else lambda: REPLY_TAGS
            client.middleware.dialect = Elsewhere(client.middleware.dialect, tell)
        history: list[dict[str, Any]] = []
        for number in range(CALLS):
            question = {"role": "user", "content": f"Do step {number}, and say how it went."}
            answer = _call(client, [*history, question])
            if conversation:
                history += [question, {"role": "assistant", "content": answer}]
    requests = [_prefix_order(asked.body) for asked in server.asked]
    seen = sum(_shared(one, other) for one, other in pairwise(requests))
    return Sent(sum(map(len, requests)), seen, requests[-1].count("fact: step"))


def _call(client: Any, messages: list[dict[str, Any]]) -> str:
    if isinstance(client, ResumableAnthropic):
        answer = client.messages.create(model="m", max_tokens=99, system=PROGRAM, messages=messages)
    else:
        messages = [{"role": "system", "content": PROGRAM}, *messages]
        answer = client.chat.completions.create(model="m", messages=messages)
    return str(client.middleware.dialect.said(answer).text)


def _prefix_order(body: dict[str, Any]) -> str:
    """The texts of a request in the order of the prefix: a string and a list of one text are the same to a provider."""
    return "\n".join(_text(one) for one in [body.get("system", ""), *(one["content"] for one in body["messages"])])


def _shared(one: str, other: str) -> int:
    """How much two requests have in common at their beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(one["text"] for one in content)


def table() -> Iterator[str]:
    """The lines of the table."""
    yield "| client, calls | state | bytes sent | seen before | new bytes | about new tokens | facts told |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name, kind in KINDS.items():
        for conversation in (False, True):
            for way, label in (
                ("tags", "not told"),
                ("system", "in the system prompt"),
                ("now", "at the end of the request"),
            ):
                total, seen, told = sent(kind, way, conversation=conversation)
                calls = "one conversation" if conversation else "one message each"
                new = total - seen
                yield f"| {name}, {calls} | {label} | {total:,} | {seen / total:.0%} | {new:,} | {new // 4:,} | {told} |"


if __name__ == "__main__":
    print("\n".join(table()))
