"""The story of one session: what was asked, planned, said, done and concluded, in order, within bounds.

Readers fill a `StoryBuilder`. An outcome comes from an exit code or a typed result, never from a status word or a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

import msgspec

from adjourn.sessions.texts import persons_words
from adjourn.text.command_lines import runs_tests
from adjourn.text.redact import LONGEST, beginning, without_secrets

MAX_TEXT = 8000
"""Characters kept of a prompt or an answer."""
MAX_WORDS = 1200
"""Characters kept of a call's arguments, and of its result."""
MAX_PROMPTS = 500
MAX_ANSWERS = 300
MAX_CALLS = 3000
MAX_ITEMS = 100
MAX_PATHS = 500
MAX_KINDS = 50
MAX_SEARCHED = 64 * 1024
"""Characters of a result that are searched for an order to agents."""

Kind = Literal["run", "edit", "read", "list", "helper", "mcp", "web", "other"]
Outcome = Literal["ok", "failed", "refused", "stopped", "unrecorded", "unknown"]
"""`stopped`: it ran and was interrupted, so it may have had an effect. `unrecorded`: it came back, but the client does not write how it
ended. `unknown`: no result is recorded."""

_ORDER = re.compile(
    r"(?:ignore|disregard|forget) (?:all |any |the )*(?:previous|prior|above|earlier) (?:instructions|messages|prompts)"
    r"|(?:note|message|instructions?|attention)\W{1,3}(?:to|for) (?:all |any )?(?:ai|llm)?\W?(?:agents?|assistants?|models?)\b"
    r"|<important>.{0,80}(?:agent|assistant)"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][0-9:.]{5,20}(?:Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_KEPT = re.compile(r"(?:Full output saved to|For full output see|Saved to): (/[^\s<>]{1,500})")
_ORDER_MARKS = ("ignore", "disregard", "forget", "agent", "assistant", "model")
"""One of them is in each such order: most texts are not searched further."""
_READS = re.compile(
    r"^\s*(?:cd\s+\S+\s*&&\s*)?(?:cat|ls|head|tail|grep|rg|find|wc|pwd|echo|seq|which|file|stat|tree|env|date|diff|sed\s+-n|awk|"
    r"git\s+(?:status|log|diff|show|branch|rev-parse|blame|ls-files))\b[^>;&`$]*$"
)


@lru_cache(maxsize=MAX_CALLS)
def _only_reads(command: str) -> bool:
    return _READS.match(command) is not None


class Prompt(msgspec.Struct, kw_only=True):
    """Words of the person, or of a script that stands for one. `is_delivered` is false where the agent never got them.

    `length` is that of the text before secrets were removed, in characters. `record` is the id of its record. `is_kept`: the last compaction
    left it in the agent's context.
    """

    text: str
    step: int
    at: str = ""
    by_script: bool = False
    is_delivered: bool = True
    length: int = 0
    record: str = ""
    is_kept: bool = False


class AgentAnswer(msgspec.Struct, kw_only=True):
    """What the agent said in one answer; `is_summary` where it is the model's summary of what a compaction removed."""

    text: str
    step: int
    at: str = ""
    is_summary: bool = False


class SessionCall(msgspec.Struct, kw_only=True):
    """One call of a tool. `what` is its command, path or arguments; `words` are from its result, and untrusted. `output` is the file in
    which the client keeps a large result whole. `by_person`: the person ran the command in the client's own prompt. `by_ledger`: adjourn's
    ledger has the outcome, and the transcript has none.
    """

    id: str
    tool: str
    kind: Kind
    what: str
    step: int
    at: str = ""
    path: str = ""
    outcome: Outcome = "unknown"
    code: int | None = None
    words: str = ""
    output: str = ""
    ended: int = 0
    by_person: bool = False
    by_ledger: bool = False

    @property
    def is_test(self) -> bool:
        """Whether it is a command that runs tests."""
        return self.kind == "run" and runs_tests(self.what)

    @property
    def has_effects(self) -> bool:
        """Whether it may have changed something."""
        return self.kind in ("edit", "mcp", "other") or (self.kind == "run" and not _only_reads(self.what))


class PlanItem(msgspec.Struct):
    """An item of the agent's plan, with the state that the agent gave it."""

    text: str
    state: Literal["open", "active", "done"]


class Change(msgspec.Struct, kw_only=True):
    """What the session's edits did to one file. `last` is the step of the last edit that may have worked, `unrecorded` counts those of which
    the client does not write whether they did.
    """

    path: str
    edits: int = 0
    unrecorded: int = 0
    failed: int = 0
    last: int = 0
    is_new: bool = False
    is_deleted: bool = False


class SessionStory(msgspec.Struct, kw_only=True):
    """One session. `step` numbers count in the order of the file; `unknown` counts the records that the reader does not know."""

    client: str
    id: str = ""
    path: str = ""
    folder: str = ""
    branch: str = ""
    head: str = ""
    version: str = ""
    models: list[str] = []
    started: str = ""
    touched: str = ""
    prompts: list[Prompt] = []
    answers: list[AgentAnswer] = []
    calls: list[SessionCall] = []
    plan: list[PlanItem] = []
    plan_step: int = 0
    changes: dict[str, Change] = {}
    orders: list[str] = []
    limits: list[str] = []
    unknown: dict[str, int] = {}
    compactions: int = 0
    resumes: int = 0
    calls_made: int = 0
    prompts_made: int = 0
    tokens: int = 0
    unread: int = 0
    unreadable: int = 0
    size: int = 0
    steps: int = 0
    is_helper: bool = False
    is_turn_open: bool = False
    interrupted: int = 0
    notes: dict[str, str] = {}
    """What a reader has to remember where it continues to read."""

    @property
    def title(self) -> str:
        """The first prompt; "" for none."""
        return next((prompt.text for prompt in self.prompts if prompt.is_delivered), "")

    @property
    def in_doubt(self) -> list[SessionCall]:
        """The calls whose outcome nobody knows: without a result, or stopped after they had started."""
        return [call for call in self.calls if call.outcome in ("unknown", "stopped")]

    @property
    def is_unfinished(self) -> bool:
        """Whether something is left to do: a call in doubt, an open turn, an open item, or a prompt without an answer."""
        return (
            bool(self.in_doubt)
            or self.is_turn_open
            or any(item.state != "done" for item in self.plan)
            or self.ending not in ("answered", "empty")
        )

    @property
    def ending(self) -> str:
        """How the session ended, as far as its file tells."""
        if not self.prompts:
            return "empty"
        if self.limits:
            return "stopped by a limit"
        last = self.calls[-1] if self.calls else None
        said = max((answer.step for answer in self.answers), default=0)
        asked = max(prompt.step for prompt in self.prompts)
        if last is not None and last.outcome == "unknown" and last.step > said:
            return "broke off in a call"
        if self.interrupted > max(said, asked):
            return "interrupted by the person"
        if self.is_turn_open or asked > said or (last is not None and last.step > said):
            return "broke off"
        return "answered"


class StoryBuilder:
    """Fills a story in the order of the file. Texts are cut here, so that no record can make the story large.

    `story` is one that was read so far, which is continued.
    """

    def __init__(self, client: str, path: str = "", story: SessionStory | None = None) -> None:
        self.story = story = SessionStory(client=client, path=path) if story is None else story
        self._kept_steps = story.steps or -1
        self._handed_over = ("", 0)
        self._open = {call.id: call for call in story.calls if call.id}
        self._queued = [prompt for prompt in story.prompts if not prompt.is_delivered]
        story.prompts = [prompt for prompt in story.prompts if prompt.is_delivered]

    def step(self, at: object = "") -> int:
        """The number of the next thing that happened."""
        story = self.story
        story.steps += 1
        if stamp := time_of(at):
            story.started = story.started or stamp
            story.touched = max(story.touched, stamp)
        return story.steps

    def prompt(self, text: str, at: object = "", *, by_script: bool = False, record: object = "") -> None:
        """Words of the person. The same text twice in a row is one prompt told twice, unless something happened between."""
        text = text.strip()[:MAX_TEXT]
        orders = persons_words(text)
        if len(orders) > 1:
            if (text, self.story.steps) == self._handed_over:
                return
            for order in orders:
                self._prompt(order, at, by_script=by_script, record=record)
            self._handed_over = (text, self.story.steps)
        elif text:
            self._prompt(orders[0], at, by_script=by_script, record=record)

    def _prompt(self, text: str, at: object, *, by_script: bool, record: object) -> None:
        story = self.story
        if story.prompts and (last := story.prompts[-1]).step == story.steps:
            is_kept = story.steps == self._kept_steps  # and may be without secrets
            if last.text == text or (is_kept and last.length == len(text)):
                return
        story.prompts_made += 1
        prompt = Prompt(
            text=text,
            step=self.step(at),
            at=time_of(at),
            by_script=by_script,
            length=len(text),
            record=text_of(record, 80),
        )
        story.prompts.append(prompt)
        if len(story.prompts) > MAX_PROMPTS:
            del story.prompts[MAX_PROMPTS // 5]  # the first ones say what it is about
        story.is_turn_open = True

    def compacted(self, records: Iterable[object] = (), texts: Iterable[str] = ()) -> None:
        """A compaction: of the prompts, those of these records or with these words stay in the agent's context."""
        self.story.compactions += 1
        kept, words = {text_of(record, 80) for record in records} - {""}, {text.strip()[:MAX_TEXT] for text in texts}
        for prompt in self.story.prompts:
            prompt.is_kept = prompt.record in kept or prompt.text in words

    def queue(self, text: str, at: object = "") -> None:
        """Words that the person typed while the agent worked: delivered only when `unqueue` says so."""
        if text.strip() and len(self._queued) < MAX_ITEMS:
            self._queued.append(
                Prompt(text=text.strip()[:MAX_TEXT], step=self.step(at), at=time_of(at), is_delivered=False)
            )

    def unqueue(self, text: str = "") -> None:
        """The client took a queued prompt: the one with this text, else the oldest."""
        text = text.strip()[:MAX_TEXT]
        index = next((index for index, prompt in enumerate(self._queued) if prompt.text == text), 0)
        if self._queued:
            del self._queued[index]

    def say(self, text: str, at: object = "", *, is_summary: bool = False) -> None:
        """Words of the agent."""
        text = text.strip()
        if not text:
            return
        answers = self.story.answers
        answers.append(AgentAnswer(text=text[:MAX_TEXT], step=self.step(at), at=time_of(at), is_summary=is_summary))
        if len(answers) > MAX_ANSWERS:
            del answers[0]

    def call(self, id_: object, tool: object, kind: Kind, what: str, at: object = "", *, path: str = "") -> SessionCall:
        """A call of a tool starts."""
        story = self.story
        call = SessionCall(
            id=text_of(id_, 200), tool=text_of(tool, 100), kind=kind, what=what.strip()[:MAX_WORDS], step=self.step(at),
            at=time_of(at), path=path[:MAX_WORDS],
        )  # fmt: skip
        story.calls_made += 1
        story.calls.append(call)
        if call.id:
            self._open[call.id] = call
        if len(story.calls) > MAX_CALLS:
            index = next((index for index, old in enumerate(story.calls) if old.outcome == "ok"), 0)
            self._open.pop(story.calls[index].id, None)
            del story.calls[index]
        story.is_turn_open = True
        return call

    def result(
        self, id_: object, outcome: Outcome, text: str = "", *, code: int | None = None, at: object = ""
    ) -> None:
        """A call has ended. The first result with an exit code counts; a later one can only add what was not known."""
        call = self._open.get(text_of(id_, 200))
        if call is None:
            return
        is_told = call.ended and call.outcome not in ("unknown", "unrecorded")
        if is_told and (call.code is not None or code is None):
            return
        was_ok = call.ended and call.outcome == "ok"
        was_unrecorded = call.ended and call.outcome == "unrecorded"
        call.outcome, call.code, call.ended = outcome, code, self.step(at)
        call.words = _ends(text)
        if match := _KEPT.search(text, 0, MAX_WORDS):
            call.output = match[1]
        if self._holds_order(text):
            self.found_order(call.path or call.what)
        if call.kind == "edit" and call.path and not was_ok:
            if outcome in ("ok", "failed"):
                self.change(call.path, is_done=outcome == "ok")
            elif outcome == "unrecorded" and not was_unrecorded:
                self.change(call.path, is_done=None)

    def change(self, path: str, *, is_done: bool | None, is_new: bool = False, is_deleted: bool = False) -> None:
        """An edit of a file has ended; `is_done` is None where the client does not write whether it worked."""
        changes = self.story.changes
        path = path[:MAX_WORDS]
        if path not in changes and len(changes) >= MAX_PATHS:
            return
        change = changes.setdefault(path, Change(path=path))
        if is_done is False:
            change.failed += 1
            return
        change.last = self.story.steps
        if is_done is None:
            change.unrecorded += 1
            return
        change.edits += 1
        change.is_new = change.is_new or (is_new and change.edits == 1)
        change.is_deleted = is_deleted

    def note(self, name: str, value: str) -> None:
        """Remember something for the records that follow."""
        notes = self.story.notes
        if name in notes or len(notes) < MAX_ITEMS:
            notes[name] = value[:MAX_WORDS]

    def known(self, id_: object) -> SessionCall | None:
        """The call with this id."""
        return self._open.get(text_of(id_, 200))

    def replan(self, items: Iterable[tuple[object, object]]) -> None:
        """The agent's plan, whole: the text of each item and its state in the client's word."""
        plan = []
        for text, state in items:
            words = text_of(state, 30).lower()
            done = words in ("completed", "complete", "done", "cancelled", "canceled", "deleted")
            active = words in ("in_progress", "in-progress", "active", "inprogress")
            plan.append(PlanItem(text_of(text, MAX_WORDS), "done" if done else "active" if active else "open"))
            if len(plan) >= MAX_ITEMS:
                break
        self.story.plan, self.story.plan_step = [item for item in plan if item.text], self.step()

    def found_order(self, where: str) -> None:
        """Something that the agent read holds an order to agents. It is reported, not repeated."""
        if len(self.story.orders) < MAX_KINDS and where not in self.story.orders:
            self.story.orders.append(where)

    def skip(self, kind: object) -> None:
        """A record of a kind that the reader does not know."""
        name = text_of(kind, 60) or "unnamed"
        unknown = self.story.unknown
        if name in unknown or len(unknown) < MAX_KINDS:
            unknown[name] = unknown.get(name, 0) + 1

    def model(self, name: object) -> None:
        """The model that answered. The one that did so last stands last."""
        text, models = text_of(name, 60), self.story.models
        if text in models:
            models.remove(text)
        if text and len(models) < MAX_KINDS:
            models.append(text)

    def end_turn(self) -> None:
        """The agent's turn is over, by the client's word."""
        self.story.is_turn_open = False

    def finish(self) -> SessionStory:
        """The story, with the prompts that were never delivered."""
        self.story.prompts += self._queued
        return self.story

    @staticmethod
    def _holds_order(text: str) -> bool:
        lower = text[:MAX_SEARCHED].lower()
        return any(mark in lower for mark in _ORDER_MARKS) and _ORDER.search(lower) is not None


def text_of(value: object, limit: int = MAX_TEXT) -> str:
    """A value that should be a text, cut; "" where it is none."""
    return value[:limit] if isinstance(value, str) else ""


def time_of(value: object) -> str:
    """A value that should be a time in ISO 8601; "" where it is none."""
    return value if isinstance(value, str) and len(value) <= 40 and _is_time(value) else ""


@lru_cache(maxsize=256)
def _is_time(value: str) -> bool:
    return _TIME.fullmatch(value) is not None


def member(value: object, *names: str) -> Any:
    """A member of nested objects; None where one is missing or is no object."""
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def objects(value: object) -> list[dict[str, Any]]:
    """The objects in a list, within bounds; none for anything else."""
    return [item for item in value[:10_000] if isinstance(item, dict)] if isinstance(value, list) else []


def _ends(text: str) -> str:
    """The beginning and the end of a long text. No secret is cut into a piece that is not known for one."""
    text = text.strip()
    half = MAX_WORDS // 2
    if len(text) <= MAX_WORDS:
        return text
    return f"{beginning(text, half)}\n…\n{without_secrets(text[-half - LONGEST :])[-half:]}"
