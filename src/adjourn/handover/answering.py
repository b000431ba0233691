"""Answer what waits in the inbox: the arguments of a call as a person reads them, and the one use case that records an answer.

Of two answers the first is recorded; the second person learns who answered, how and when. Arguments may be anything: an agent sent them.
No file outside of the work tree is read for them, and none that cannot be read makes this fail.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Literal, NamedTuple

import msgspec

from adjourn.checkpoints.save import refresh_page
from adjourn.errors import AdjournError, NotFoundError, RefusedError, UsageError
from adjourn.handover.inbox import WaitingItem
from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log.event import Actor
from adjourn.log.kinds import tool_name
from adjourn.store.base import Store
from adjourn.tasks.approvals import (
    AnsweredError,
    PersonsAnswer,
    answer,
    answer_first,
    given_answer,
    given_outcome,
    settle_doubt,
)
from adjourn.tasks.lease import expire_dead_sessions
from adjourn.tasks.task import Task, existing
from adjourn.text.times import ago

MAX_ANSWER: Final = 2_000
"""Characters of the text of an answer."""
WAYS = {
    "cli": "in a terminal",
    "terminal": "in a terminal",
    "page": "on the page",
    "elicitation:accept": "in the client",
}
"""The ways of answering, as events name them."""


class ItemReply(NamedTuple):
    """An answer to the item `id` of a task or record. `option` is the number of the chosen option, from 0."""

    kind: str
    id: str
    action: str
    task: str = ""
    record: str = ""
    text: str = ""
    option: int | None = None


class ReplyOutcome(NamedTuple):
    """What an answer came to, in words. `is_yes`: it permits something. `is_late`: an earlier answer counts instead."""

    text: str
    is_yes: bool = False
    is_late: bool = False


class Answerer(NamedTuple):
    """Who answers, in which store; `via` is the way of answering, as events name it. `root` and `tree` are the workspace, where it is
    known: they have the checkpoints and pages that tell of a call in doubt. `roles` are as in `PersonsAnswer`.
    """

    store: Store
    person: Actor
    via: str
    clock: Callable[[], int]
    secret: bytes
    root: str = ""
    tree: str = ""
    roles: Collection[str] = ()

    @property
    def author(self) -> CRAuthor:
        """The person, as records name authors."""
        return CRAuthor(id=self.person.id, type="human")

    @property
    def records(self) -> RecordTrees:
        """The records of the store."""
        return RecordTrees(self.store, clock=self.clock)

    def task(self, name: str) -> Task:
        """A task by its whole id. Raises `NotFoundError`."""
        task = existing(self.store, name, clock=self.clock, secret=self.secret)
        if task.id != name:
            raise NotFoundError(f"no task has the id {name!r}", "look at the inbox again")
        return task


def record_answer(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    """Record an answer. Raises `UsageError` for one that the item does not have, and as the use cases do."""
    _check_choice(reply)
    return _RULES[reply.kind](by, reply)


def check_reply(item: WaitingItem, reply: ItemReply) -> None:
    """Check an answer before it is recorded. Raises `UsageError` for one that the item does not have, or that lacks its option or text."""
    _check_choice(reply)
    if item.options and reply.action in ("answer", "accept"):
        _number(reply, item.options)
    else:
        _text(reply)


def _approval(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    yes = reply.action == "approve"
    task = by.task(reply.task)
    try:
        approval = answer_first(task, reply.id, PersonsAnswer(yes, by.via, by.person, _text(reply), roles=by.roles))
    except (AnsweredError, NotFoundError):
        before = given_answer(by.store, task.ledger, reply.id)
        if before is None:
            raise
        return ReplyOutcome(_too_late(by, before), is_late=True)
    what = tool_name(approval)
    if not yes:
        return ReplyOutcome(f"Denied: {what}.")
    if approval.refused:
        return ReplyOutcome(f"Approved: {what}. It runs once the agent repeats the call.", is_yes=True)
    return ReplyOutcome(f"Approved: {what}. It runs once.", is_yes=True)


def revoke_approval(by: Answerer, task: str, approval: str) -> ReplyOutcome:
    """Take an approval back that no call has used. Raises `NotFoundError` where one has, or its time is over."""
    revoked = answer(by.task(task), approval, yes=False, via=by.via, by=by.person, reason="approved, then revoked")
    return ReplyOutcome(f"Revoked: {tool_name(revoked)}. The agent has to ask again.")


def _too_late(by: Answerer, before: PersonsAnswer) -> str:
    text = "approved" if before.yes else "denied"
    way = "on this page" if before.via == by.via == "page" else WAYS.get(before.via, "in the client")
    return f"{_name(by, before.by)} {text} this {way}, {ago(before.at, by.clock())}{_because(before)}."


def _name(by: Answerer, person: Actor) -> str:
    return "You" if person.id == by.person.id else person.id


def _because(before: PersonsAnswer) -> str:
    return f": {before.reason}" if before.reason else ""


def _question(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    records = by.records
    if reply.action == "skip":
        records.skip_question(reply.record, reply.id, _text(reply), by.author)
        return ReplyOutcome("Skipped the question.")
    options = _item(records, reply, "questionsForUser").get("options", ())
    said = options[_number(reply, options)] if options else _text(reply)
    try:
        records.answer_question(reply.record, reply.id, said, by.author)
    except AdjournError:
        now = _item(records, reply, "questionsForUser")
        if now["status"] != "answered":
            raise
        return ReplyOutcome(f"{now['answeredBy']['id']} answered this before: {now['answer']}.", is_late=True)
    return ReplyOutcome(f"Answered: {said}.", is_yes=True)


def _resume_point(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    records = by.records
    yes = reply.action == "approve"
    point = _item(records, reply, "resumePoints")
    if point["approvalStatus"] != "pending":
        who = point.get("approvedBy") or point.get("deniedBy") or {"id": "somebody"}
        return ReplyOutcome(f"{who['id']} {point['approvalStatus']} this before.", is_late=True)
    if yes:
        records.approve_resume_point(reply.record, reply.id, by.author, note=_text(reply))
        return ReplyOutcome(f"Approved: {point['label']}. Its steps may start once.", is_yes=True)
    reason = _text(reply) or f"denied by {by.person.id}"
    records.deny_resume_point(reply.record, reply.id, reason, by.author)
    return ReplyOutcome(f"Denied: {point['label']}.")


def _decision(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    records = by.records
    decision = _item(records, reply, "decisions")
    text, variant, variants = "", None, decision.get("variants", ())
    if reply.action == "override":
        text = _text(reply)
    elif variants and decision["status"] == "contested":
        variant = _number(reply, variants)
    try:
        records.answer_contested(reply.record, reply.id, by.author, text=text, variant=variant)
    except RefusedError:
        now = _item(records, reply, "decisions")
        if now["status"] == "contested":
            raise
        return ReplyOutcome(f"This decision was settled before: {now['description']} ({now['status']}).", is_late=True)
    return ReplyOutcome(f"Decided: {text}." if text else "Accepted the decision.", is_yes=True)


def _in_doubt(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    happened = reply.action == "done"
    task = by.task(reply.task)
    expire_dead_sessions(task)
    try:
        settle_doubt(task, reply.id, happened=happened, by=by.person, note=_text(reply))
    except NotFoundError:
        before = given_outcome(by.store, task.ledger, reply.id)
        if before is None:
            raise
        outcome = "happened" if before.yes else "did not happen"
        said = f"{_name(by, before.by)} said {ago(before.at, by.clock())} that it {outcome}{_because(before)}."
        return ReplyOutcome(said, is_late=True)
    refresh_page(task, by.root, by.tree)
    text = "took effect" if happened else "did not take effect"
    return ReplyOutcome(f"Recorded: the call {text}.", is_yes=True)


def _blocker(by: Answerer, reply: ItemReply) -> ReplyOutcome:
    text = _text(reply)
    blocker = _item(by.records, reply, "blockers")
    if blocker["status"] == "resolved":
        return ReplyOutcome(
            f"{blocker['resolvedBy']['id']} resolved this before: {blocker['resolution']}.", is_late=True
        )
    by.records.resolve_blocker(reply.record, reply.id, text, by.author)
    return ReplyOutcome("Resolved the blocker.", is_yes=True)


def _check_choice(reply: ItemReply) -> None:
    if reply.kind not in _CHOICES:
        raise UsageError(f"nothing of the kind {reply.kind[:40]!r} can be answered", "look at the inbox again")
    if reply.action not in _CHOICES[reply.kind]:
        raise UsageError(f"{reply.kind} {reply.id[:80]!r} has no such answer", "give one of the answers shown")
    if len(reply.text) > MAX_ANSWER:
        raise UsageError(f"the text has more than {MAX_ANSWER:,} characters", "shorten it")


def _text(reply: ItemReply) -> str:
    """The text of an answer. Raises `UsageError` where it must have one."""
    text, missing = reply.text.strip(), _CHOICES[reply.kind][reply.action]
    if missing and not text:
        raise UsageError("the text is empty", missing)
    return text


def _number(reply: ItemReply, options: Sequence[object]) -> int:
    if reply.option is None or not 0 <= reply.option < len(options):
        raise UsageError("no option is chosen", "choose one of the options")
    return reply.option


def _item(records: RecordTrees, reply: ItemReply, collection: str) -> Tree:
    record = records.resolve(reply.record)
    for value in record[collection]:
        if value["id"] == reply.id:
            item: Tree = value
            return item
    raise NotFoundError(f"record {record['id']} has no {reply.id!r} any more", "look at the inbox again")


_CHOICES: Mapping[str, Mapping[str, str]] = {
    "approval": {"approve": "", "deny": ""},
    "blocker": {"resolve": "say how it was resolved"},
    "decision": {"accept": "", "override": "write the decision"},
    "in-doubt": {"done": "", "not-done": ""},
    "question": {"answer": "write an answer", "skip": "say why you skip the question"},
    "resume-point": {"approve": "", "deny": ""},
}
"""The answers of each kind of item, and what to do where one must have a text."""
_RULES: Mapping[str, Callable[[Answerer, ItemReply], ReplyOutcome]] = {
    "approval": _approval,
    "blocker": _blocker,
    "decision": _decision,
    "in-doubt": _in_doubt,
    "question": _question,
    "resume-point": _resume_point,
}


# --- the arguments of a call: each by its name, long ones as text, and a change of a file as a diff

MAX_ARGUMENTS = 40
MAX_VALUE = 8_000
"""Characters of one value."""
MAX_DIFF_LINES = 400
MAX_COMPARED = 400
"""Lines that differ, of either text, that are compared with each other: a hostile text must not keep the page busy."""
_AROUND = 3
_LONG = 72
_BEFORE = ("old_string", "old_str", "oldText", "old_text", "old", "search")
_AFTER = ("new_string", "new_str", "newText", "new_text", "new", "replace", "replacement")
_LISTS = ("edits", "changes", "replacements")
_PATHS = ("path", "file_path", "filename", "notebook_path")
_CONTENTS = ("content", "contents", "file_text", "text")
_FIELDS = tuple(zip(_BEFORE, _AFTER, strict=False))


class Argument(NamedTuple):
    """One argument. `is_text`: shown as lines of its own."""

    name: str
    value: str
    is_text: bool


class DiffLine(NamedTuple):
    """A line of a diff: `added`, `removed`, `same`, or `gap`, where lines are left out."""

    kind: Literal["added", "removed", "same", "gap"]
    text: str


_GAP = DiffLine("gap", "…")


class ShownArguments(NamedTuple):
    """The arguments of a call. `is_cut`: the record has only the beginning of them."""

    rows: Sequence[Argument] = ()
    diff: Sequence[DiffLine] = ()
    raw: str = ""
    is_cut: bool = False


def read_arguments(text: str, read_file: Callable[[str], str | None]) -> ShownArguments:
    """What a person is shown of arguments, given as JSON, which may be cut.

    `read_file` gives the text of a file as it is now, "" for a file that is not there yet, None for what is not to be shown. A call
    that writes a whole file is shown as a change of it.
    """
    try:
        given = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return ShownArguments(raw=text[:MAX_VALUE], is_cut=True)
    if not isinstance(given, dict):
        return ShownArguments(raw=text[:MAX_VALUE])
    edits = list(_edits(given))
    hidden = {name for pair in _FIELDS for name in pair} | {*_LISTS} if edits else set[str]()
    if not edits and (written := _written(given)) and (now := read_file(written.path)) is not None:
        edits, hidden = [(now, written.content)], {written.name}
    rows = [_row(name, value) for name, value in list(given.items())[:MAX_ARGUMENTS] if name not in hidden]
    return ShownArguments(rows, diff_lines(edits))


def diff_lines(edits: Sequence[tuple[str, str]]) -> list[DiffLine]:
    """The lines of a diff of each pair of texts, before and after."""
    diff_lines: list[DiffLine] = []
    for before, after in edits:
        lines = _difference(before.splitlines(), after.splitlines())
        if diff_lines and lines:
            diff_lines.append(_GAP)
        diff_lines += lines
        if len(diff_lines) > MAX_DIFF_LINES:
            return [*diff_lines[:MAX_DIFF_LINES], DiffLine("gap", "… more lines are not shown")]
    return diff_lines


def _difference(before: list[str], after: list[str]) -> list[DiffLine]:
    """The lines that differ, with `_AROUND` equal ones around them."""
    from difflib import unified_diff  # 10 ms, only where two texts are compared

    start = next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    tails = zip(reversed(before[start:]), reversed(after[start:]), strict=False)
    same = next((n for n, (a, b) in enumerate(tails) if a != b), min(len(before), len(after)) - start)
    first, last = max(0, start - _AROUND), max(0, same - _AROUND)
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    if max(len(old), len(new)) > MAX_COMPARED:
        return [*(DiffLine("removed", line) for line in old), *(DiffLine("added", line) for line in new)]
    return [_diff_line(line) for line in list(unified_diff(old, new, n=_AROUND, lineterm=""))[3:]]


def _diff_line(line: str) -> DiffLine:
    mark, text = line[:1], line[1:]
    if mark == "@":
        return _GAP  # its numbers would count from the piece that is replaced, not from the file
    return DiffLine("added" if mark == "+" else "removed" if mark == "-" else "same", text)


def _edits(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The pieces of text that a call replaces, in the forms that tools which edit files have."""
    parts = [given]
    for name in _LISTS:
        listed = given.get(name)
        if isinstance(listed, list):
            parts += [value for value in listed[:MAX_ARGUMENTS] if isinstance(value, dict)]
    for part in parts:
        for before, after in _FIELDS:
            old, new = part.get(before), part.get(after)
            if isinstance(old, str) and isinstance(new, str):
                yield old, new


class _WrittenFile(NamedTuple):
    """A file that a call writes: the argument that has its content, and that content."""

    path: str
    name: str
    content: str


def _written(given: Mapping[str, object]) -> _WrittenFile | None:
    path = next((given[name] for name in _PATHS if isinstance(given.get(name), str)), None)
    name = next((name for name in _CONTENTS if isinstance(given.get(name), str)), None)
    return _WrittenFile(str(path), name, str(given[name])) if path and name else None


def _row(name: str, value: object) -> Argument:
    text = value if isinstance(value, str) else _json(value)
    if len(text) > MAX_VALUE:
        text = f"{text[:MAX_VALUE]}… ({len(text):,} characters)"
    return Argument(name, text, "\n" in text or len(text) > _LONG)


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


# --- the arguments of a call that waits, and the file that it would write

MAX_FILE = 1 << 20
"""Bytes of a file that a call writes, to be shown as a change of it."""


def arguments_of(store: Store, item: WaitingItem, tree: str) -> ShownArguments:
    """The arguments of a call, with a diff where it changes a file of the work tree `tree`; nothing for what is no call."""
    if item.kind not in ("approval", "in-doubt"):
        return ShownArguments()
    return read_arguments(_longest(store, item), partial(_file, tree))


def _longest(store: Store, item: WaitingItem) -> str:
    """The longest text of the arguments that the store has."""
    with suppress(AdjournError):  # a document that was changed in the store
        if item.document and (blob := store.get_blob(item.document)) is not None:
            return blob.decode(errors="replace")
    return item.context


def _file(tree: str, path: str) -> str | None:
    """A text file of the work tree as it is now, "" for one that is not there; None for what is elsewhere, large, or no text."""
    from adjourn.host.workspace import read_inside

    try:
        return read_inside(tree, path, MAX_FILE).decode()
    except NotFoundError:
        return ""
    except (AdjournError, UnicodeDecodeError):
        return None
