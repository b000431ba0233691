"""What a client's own transcript says of a task's work: facts derived by a hook, kept in the store for every page and hand-over.

Only derived, redacted and bounded facts are kept, with the file, the range and a digest of what they were read from; never the
transcript. They stand below everything that an agent or a person stated.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec
from msgspec import UNSET

from adjourn.checkpoints.page import LATER, NO_REPORT, AgentReport
from adjourn.errors import ConflictError
from adjourn.store.base import Store

REF = "transcript/"
"""Starts the name of the ref of a task's facts."""
MAX_BYTES = 512 * 1024


class TranscriptFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts of a task. `report` is what a page says; `file` was read up to `end` (bytes), `digest` is of the bytes before that.

    `latest` is the transcript that the newest session named, and `latest_client` its reader. `at` is when they were derived, in milliseconds. `device` and `inode` identify the file. `hidden` are the ranges of the file, start
    and length in bytes, that hold secrets. `model` answered last, "" where the name is none. `story` is for the reader that continues at `end`.
    """

    report: AgentReport = NO_REPORT
    client: str = ""
    model: str = ""
    session: str = ""
    file: str = ""
    latest: str = ""
    latest_client: str = ""
    device: int = 0
    inode: int = 0
    end: int = 0
    digest: str = ""
    at: int = 0
    hidden: list[tuple[int, int]] = []
    story: msgspec.Raw = msgspec.Raw()


NO_FACTS = TranscriptFacts()


class _Latest(msgspec.Struct, frozen=True):
    """What is read of the facts of all tasks."""

    at: int = 0
    latest: str = ""


def read_facts(store: Store, task: str) -> TranscriptFacts:
    """The facts of a task; `NO_FACTS` where there are none, or a later version wrote them."""
    try:
        value = store.ref(REF + task)
        return msgspec.json.decode(value, type=TranscriptFacts) if value else NO_FACTS
    except msgspec.DecodeError:
        return NO_FACTS


def latest_transcripts(store: Store) -> dict[str, str]:
    """The tasks, by the transcripts that their newest sessions named; of several tasks the one that was derived last."""
    found = []
    for name, value in store.refs(REF).items():
        with suppress(msgspec.DecodeError):  # a later version wrote it
            facts = msgspec.json.decode(value, type=_Latest)
            found.append((facts.at, facts.latest, name.removeprefix(REF)))
    return {latest: task for _, latest, task in sorted(found) if latest}


def keep_facts(store: Store, task: str, facts: TranscriptFacts) -> None:
    """Replace the facts of a task. Facts that are too large, or that another hook replaced meanwhile, are not kept."""
    value = msgspec.json.encode(facts).decode()
    if len(value.encode()) > MAX_BYTES:
        return
    try:
        store.swap(REF + task, value, expect=store.ref(REF + task), durable=False)
    except ConflictError:
        return


def without_story(value: str) -> str:
    """The value of a ref without what only the reader of a growing file needs: it reads the file from its beginning again."""
    try:
        facts = msgspec.json.decode(value, type=TranscriptFacts)
    except msgspec.DecodeError:
        return value
    if facts.story is NO_FACTS.story:
        return value
    return msgspec.json.encode(msgspec.structs.replace(facts, story=NO_FACTS.story)).decode()


def orders_in(report: AgentReport) -> list[str]:
    """What a person asked for, each prompt by itself, in their order."""
    return report.mission.split(LATER) if isinstance(report.mission, str) else []


def filled(stated: AgentReport, derived: AgentReport) -> AgentReport:
    """A report with the derived parts where nothing was stated. Lines of the current state, and questions, are added up."""
    parts = {
        name: value
        for name in ("mission", "progress", "artifacts", "resumption_point")
        if not getattr(stated, name) and (value := getattr(derived, name)) is not UNSET
    }
    for name in ("current_state", "open_questions"):
        lines = dict.fromkeys((*(getattr(stated, name) or ()), *(getattr(derived, name) or ())))
        if lines:
            parts[name] = tuple(lines)
    return msgspec.structs.replace(stated, **parts)
