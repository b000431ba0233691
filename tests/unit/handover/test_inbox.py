"""The inbox: what waits for a person in the tasks and records of a store, and what waits no more."""

from __future__ import annotations

import time
from typing import Any

import pytest

from adjourn.errors import IntegrityError, RefusedError
from adjourn.handover import inbox as handover_inbox
from adjourn.handover.inbox import Inbox, KnownStream, WaitingItem
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.effect_lookup import EffectCall
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log import kinds
from adjourn.log.event import Actor, timestamp
from adjourn.store import Entry, Store
from adjourn.tasks.approvals import answer, settle_doubt, waiting_approvals
from adjourn.tasks.task import FOLD_FORM, NewEvent, Task
from adjourn.tasks.work_index import ALL, INDEXED, WAITING, waiting_heads
from support.record_folder import AGENT, FIELDS
from support.task_sessions import DEPLOY, REMOTE_PROCESS, SECRET, WRITE, SharedTask, admit_one

ANN = Actor("ann", "human")
PERSON = CRAuthor(id="ann", type="human")


def find_waiting(store: Store, **options: Any) -> Inbox:
    """What waits, found by reading every stream; by the index it is the same."""
    found = handover_inbox.find_waiting(store, **options)
    store.swap(INDEXED, ALL, expect=None)
    indexed = handover_inbox.find_waiting(store, **{**options, "known": None})
    store.swap(INDEXED, None, expect=ALL)
    assert (indexed.items, indexed.troubles, indexed.granted) == (found.items, found.troubles, found.granted)
    return found


def inbox(shared: SharedTask, task: str = "") -> list[WaitingItem]:
    return find_waiting(shared.store, clock=shared.clock, secret=SECRET, task=task).items


def told(shared: SharedTask) -> list[tuple[str, str]]:
    return [(one.kind, one.id) for one in inbox(shared)]


def asked(shared: SharedTask, name: str, *, task: str = "t1", minutes: int = 15, **members: Any) -> Task:
    """A question about a call, put a second after whatever was before it."""
    shared.clock.move(seconds=1)
    found = shared.task(task)
    expires = timestamp(shared.clock() + minutes * 60_000)
    given = {"tool": "deploy", "digest": "1" * 64, "cause": "confirm before deploy", **members}
    found.commit(lambda _: [NewEvent(kinds.ConfirmRequired(approval=name, expires=expires, **given))])
    return found


def in_doubt(shared: SharedTask, call: str = "c1") -> Task:
    task = shared.task()
    sent = kinds.ToolAllowed(call=call, tool="deploy", digest="1" * 64, effectful=True, arguments='{"to":"prod"}')
    task.commit(lambda _: [NewEvent(sent)])
    return task


def fields(**members: Any) -> dict[str, Any]:
    return {**FIELDS, **members}


def test_everything_of_all_tasks_with_its_commands() -> None:
    """Approvals, doubts, questions, resume points, contested decisions and blockers: each with what it says and what answers it."""
    shared = SharedTask()
    in_doubt(shared)
    asked(shared, "k1", task="t2", arguments='{"to":"test"}')
    records = RecordTrees(shared.store, clock=shared.clock)
    shared.clock.move(seconds=1)
    blocker = {
        "id": "b1", "type": "permission", "description": "no token", "status": "active", "severity": "high",
        "createdBy": {"id": "agent-1", "type": "agent"}, "createdAt": shared.clock(), "blocksResumePoints": [],
    }  # fmt: skip
    records.create(
        fields(blockers=[blocker, {**blocker, "id": "b2", "type": "dependency"}]), author=AGENT, cr_id="line"
    )
    shared.clock.move(seconds=1)
    records.contest_decision("line", "d1", "Use a file", "smaller", PERSON)
    found = {one.id: one for one in inbox(shared)}
    assert [(one.kind, one.id, one.task) for one in found.values()] == [
        ("approval", "k1", "t2"),
        ("in-doubt", "c1", "t1"),
        ("blocker", "b1", "t1"),
        ("resume-point", "go", "t1"),
        ("question", "q1", "t1"),
        ("decision", "d1", "t1"),
    ]
    assert found["k1"].commands == ("adjourn approve k1", "adjourn deny k1")
    assert (found["k1"].title, found["k1"].context, found["k1"].cause) == (
        "deploy",
        '{"to":"test"}',
        "confirm before deploy",
    )
    assert found["k1"].until > found["k1"].since
    assert found["c1"].commands == ("adjourn settle c1 --done", "adjourn settle c1 --not-done")
    assert found["q1"].options == ("yes", "no")
    assert found["q1"].commands == ("adjourn answer q1 yes", "adjourn answer q1 no", "adjourn answer q1 --skip REASON")
    assert found["go"].steps == ("copy", "compare")
    assert "question q1 is unanswered" in found["go"].cause
    assert found["go"].commands[0] == "adjourn approve go"
    assert found["d1"].options[1] == "ann: Use a file (smaller)"
    assert "adjourn decide d1 --accept --variant 1" in found["d1"].commands
    assert found["b1"].commands == ("adjourn record resolve b1 RESOLUTION",)
    assert {one.task for one in inbox(shared, "t2")} == {"t2"}
    assert inbox(shared, "t9") == []


def test_the_most_urgent_comes_first() -> None:
    """What expires soon by its deadline, then what a living session waits for, then the oldest; a dead session waits for nothing."""
    shared = SharedTask()
    living = shared.opened()
    asked(shared, "later", task="t2", minutes=600)
    asked(shared, "lives", minutes=600)
    asked(shared, "second", task="t4", minutes=14, digest="2" * 64)
    asked(shared, "first", task="t4", minutes=5)
    order = [(item.id, item.urgency) for item in inbox(shared)]
    assert order == [("first", "soon"), ("second", "soon"), ("lives", "blocks"), ("later", "later")]
    living.close("client-eof")
    assert {item.id: item.urgency for item in inbox(shared)}["lives"] == "later"


def test_what_is_wrong_with_a_task_is_shown_beside_what_waits() -> None:
    """A failed run of tests is nothing to answer, and stays there until it passes; a call in doubt waits for an answer instead."""
    shared = SharedTask()
    task = in_doubt(shared)
    given = {"digest": "2" * 64, "arguments": '{"command":"pytest"}', "effectful": True}
    sent = kinds.ToolAllowed(call="c2", tool="shell.exec", **given)  # type: ignore[arg-type]
    task.commit(lambda _: [NewEvent(sent), NewEvent(kinds.ToolSettled(call="c2", outcome="tool-error"))])
    found = find_waiting(shared.store, clock=shared.clock, secret=SECRET)
    assert [(each.task, each.trouble.kind) for each in found.troubles] == [("t1", "tests failed")]
    assert [item.id for item in found.items] == ["c1"]


def test_an_approval_waits_until_it_expires_or_a_person_says_no() -> None:
    """A decline of the client is nobody's answer; a person's denial or approval, and the end of its time are."""
    shared = SharedTask()
    for name, digest in (("k1", "1"), ("k2", "2"), ("k3", "3"), ("k4", "4")):
        asked(shared, name, digest=digest * 64)
    task = shared.task()
    answer(task, "k1", yes=False, via="elicitation:decline", by=Actor("client", "system"))
    answer(task, "k2", yes=False, via="cli", by=ANN)
    answer(task, "k3", yes=True, via="cli", by=ANN)
    assert told(shared) == [("approval", "k1"), ("approval", "k4")]
    shared.clock.move(seconds=1200)
    assert told(shared) == []


def test_of_the_questions_about_one_call_only_the_newest_waits_and_one_yes_closes_all() -> None:
    """A call that was repeated after a decline has a new question; an approval of the old one also approves the new one, and counts once."""
    shared = SharedTask()
    for name in ("k1", "k2", "k3"):
        task = asked(shared, name)
        if name != "k3":
            answer(task, name, yes=False, via="timeout", by=Actor("adjourn", "system"))
    asked(shared, "other", digest="2" * 64)
    assert told(shared) == [("approval", "k3"), ("approval", "other")]
    task = shared.task()
    assert answer(task, "k1", yes=True, via="cli", by=ANN).id == "k3"
    assert [one.id for one in task.ledger.approvals.values() if one.approved] == ["k3"]
    assert told(shared) == [("approval", "other")]
    allowed = kinds.ToolAllowed(call="c", tool="deploy", digest="1" * 64, effectful=True, approval="k3")
    session = shared.opened()
    task.refresh()
    task.commit(lambda _: [NewEvent(allowed, session=session.id)])
    assert told(shared) == [("approval", "other")]


def test_questions_of_different_people_are_different_questions() -> None:
    """An approval of one person is not an approval by another of the same call."""
    shared = SharedTask()
    asked(shared, "k1", who="ann")
    asked(shared, "k2", who="bob")
    assert answer(shared.task(), "k1", yes=True, via="cli", by=ANN).id == "k1"
    assert told(shared) == [("approval", "k2")]


def test_a_settled_call_closes_the_question_about_repeating_it() -> None:
    """The question says that the call repeats one in doubt; once that is settled there is nothing to answer."""
    shared = SharedTask()
    task = in_doubt(shared)
    asked(shared, "k1", doubt="c1")
    assert told(shared) == [("approval", "k1"), ("in-doubt", "c1")]
    settle_doubt(task, "c1", happened=True, by=ANN)
    assert told(shared) == []


def test_a_question_about_an_effect_is_moot_once_the_effect_is_settled(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the call is in doubt it is shown once, as that; when it completes, its question is closed in the record."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path))
    shared = SharedTask()
    records = RecordTrees(shared.store, clock=shared.clock)
    records.create({"task": {"id": "t1", "goal": "pay"}}, author=AGENT, cr_id="r1")
    call = EffectCall("payments", "charge", {"to": "x"}, key="invoice:1")
    claim = records.effects.claim("r1", call, AGENT)
    with pytest.raises(RefusedError):
        records.effects.claim("r1", call, AGENT)
    (question,) = records.resolve("r1")["questionsForUser"]
    assert [kind for kind, _ in told(shared)] == ["in-doubt"]
    records.effects.complete(claim, {"ok": True}, AGENT)
    assert told(shared) == []
    (question,) = records.resolve("r1")["questionsForUser"]
    assert (question["status"], question["skippedReason"]) == ("skipped", "The call is settled: it was done.")


def test_a_completed_task_waits_for_nobody() -> None:
    """What its record still asks is moot."""
    shared = SharedTask()
    records = RecordTrees(shared.store, clock=shared.clock)
    question = {**FIELDS["questionsForUser"][0], "priority": "low"}
    records.create(fields(questionsForUser=[question]), author=AGENT, cr_id="line")
    assert told(shared) == [("resume-point", "go"), ("question", "q1")]
    task = records.resolve("line")["task"]
    records.update("line", {"task": {**task, "status": "completed"}}, AGENT)
    assert told(shared) == []


def test_of_a_finished_task_only_calls_in_doubt_wait() -> None:
    """Its questions are moot; whether a call took effect still has to be found out."""
    shared = SharedTask()
    task = in_doubt(shared)
    asked(shared, "k1")
    RecordTrees(shared.store, clock=shared.clock).create(FIELDS, author=AGENT, cr_id="line")
    assert len(inbox(shared)) == 4
    task.refresh()
    task.commit(lambda _: [NewEvent(kinds.TaskFinished(), ANN)])
    assert told(shared) == [("in-doubt", "c1")]


def test_commands_name_the_record_where_two_have_the_same_id() -> None:
    """Copies of a record ask the same; each item says which it is of, and its command is for that one only."""
    shared = SharedTask()
    records = RecordTrees(shared.store, clock=shared.clock)
    records.create(FIELDS, author=AGENT, cr_id="one")
    assert "--record" not in "".join(command for item in inbox(shared) for command in item.commands)
    records.create(FIELDS, author=AGENT, cr_id="two")
    commands = [one.commands[0] for one in inbox(shared) if one.id == "go"]
    assert commands == ["adjourn approve go --record one", "adjourn approve go --record two"]


def test_what_an_agent_wrote_is_quoted_in_commands_bounded_and_without_secrets() -> None:
    """An id or option with blanks or shell signs stays one word; a long text is cut; a secret is not shown."""
    shared = SharedTask()
    secret = "ghp_" + "a1B2" * 9
    odd = {
        **FIELDS["questionsForUser"][0], "id": "q;rm -rf ~", "options": ["$(reboot)", "no"], "context": secret + "x" * 9000,
    }  # fmt: skip
    RecordTrees(shared.store, clock=shared.clock).create(
        fields(questionsForUser=[{**odd, "blocksResumePoints": []}], resumePoints=[]), author=AGENT, cr_id="line"
    )
    (found,) = inbox(shared)
    assert found.commands[0] == "adjourn answer 'q;rm -rf ~' '$(reboot)'"
    assert secret not in found.context
    assert len(found.context) <= 2001


def test_what_cannot_be_read_is_named_and_hides_nothing_else() -> None:
    """A task whose history is broken is shown with the reason, beside what the others wait for."""
    shared = SharedTask()
    asked(shared, "k1", task="t2")
    shared.store.append("t3", [Entry("0" * 64, b"no event")], expect=shared.store.head("t3"))
    found = find_waiting(shared.store, clock=shared.clock, secret=SECRET)
    assert [one.id for one in found.items] == ["k1"]
    assert list(found.unreadable) == ["t3"]
    assert isinstance(found.unreadable["t3"], IntegrityError)


def test_a_held_call_is_approved_through_a_session() -> None:
    """What a session asks for is what waits, and the yes lets the call through."""
    shared = SharedTask()
    session = shared.opened()
    session.admit([DEPLOY])
    (waiting,) = waiting_approvals(shared.task().ledger, shared.clock())
    assert told(shared) == [("approval", waiting.id)]


def test_a_listing_folds_long_tasks_so_that_the_next_one_is_quick() -> None:
    """Each event is read once. A task that is short stays as it is, and so does the fold of another user."""
    shared = SharedTask()
    for name, count in (("long", 100), ("short", 10)):
        asked(shared, f"of-{name}", task=name)
        made = [kinds.ToolAllowed(call=f"c{one}", tool="t", digest="1" * 64, effectful=False) for one in range(count)]
        shared.task(name).commit(lambda _, made=made: [NewEvent(one) for one in made])  # type: ignore[misc]
    first = inbox(shared)
    folds = shared.store.refs("fold/")
    assert list(folds) == ["fold/long"]
    assert inbox(shared) == first
    find_waiting(shared.store, clock=shared.clock, secret=b"another user's".ljust(32))
    assert shared.store.refs("fold/") == folds
    old = folds["fold/long"].replace(FOLD_FORM, ".0", 1)
    shared.store.swap("fold/long", old, expect=folds["fold/long"])
    assert inbox(shared) == first
    assert shared.store.refs("fold/") == folds


def test_thousands_of_things_are_listed_quickly() -> None:
    """3,000 questions in one record and 300 tasks: nothing is read twice, and nothing is quadratic."""
    shared = SharedTask()
    for number in range(300):
        asked(shared, f"k{number}", task=f"task-{number}")
    question = {**FIELDS["questionsForUser"][0], "blocksResumePoints": []}
    many = [{**question, "id": f"q{number}"} for number in range(3000)]
    RecordTrees(shared.store, clock=shared.clock).create(
        fields(questionsForUser=many, resumePoints=[]), author=AGENT, cr_id="line"
    )
    began = time.process_time()
    assert len(inbox(shared)) == 3_300
    assert time.process_time() - began < 5


def test_a_second_look_reads_only_what_may_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task or record is read again once it has another event, and once something in it is over."""
    shared = SharedTask()
    asked(shared, "k1", task="t2")
    settled = in_doubt(shared)
    settle_doubt(settled, "c1", happened=True, by=ANN)
    records = RecordTrees(shared.store, clock=shared.clock)
    records.create({"task": {"id": "t1", "goal": "pay"}}, author=AGENT, cr_id="r1")
    known: dict[str, KnownStream] = {}
    read: list[str] = []

    class Seen(Task):
        def __init__(self, store: Store, task: str, **options: Any) -> None:
            read.append(task)
            super().__init__(store, task, **options)

    def look() -> tuple[list[tuple[str, str]], list[str]]:
        with monkeypatch.context() as patch:
            patch.setattr(handover_inbox, "Task", Seen)
            read.clear()
            found = handover_inbox.find_waiting(shared.store, clock=shared.clock, secret=SECRET, known=known)
        assert found.items == inbox(shared)
        return [(one.kind, one.id) for one in found.items], list(read)

    assert look() == ([("approval", "k1")], ["t1", "t2"])
    assert look() == ([("approval", "k1")], [])
    asked(shared, "k2")
    records.create(fields(), author=AGENT, cr_id="r2")
    found, again = look()
    assert {name for _, name in found} >= {"k1", "k2", "q1"}
    assert again == ["t1"]
    shared.clock.move(seconds=2000)
    found, again = look()
    assert not {"k1", "k2"} & {name for _, name in found}
    assert again == ["t1", "t2"]
    task = shared.task()
    task.commit(lambda _: [NewEvent(kinds.TaskFinished(), ANN)])
    assert look() == ([], ["t1"])
    assert look() == ([], [])


def test_a_call_under_way_is_never_quiet() -> None:
    """A session may die without an event; its open call is then found in doubt."""
    shared = SharedTask()
    session = shared.opened(at=REMOTE_PROCESS)
    admitted = admit_one(session, WRITE)
    known: dict[str, KnownStream] = {}
    found = find_waiting(shared.store, clock=shared.clock, secret=SECRET, known=known)
    assert found.items == []
    shared.clock.move(seconds=3600)
    found = find_waiting(shared.store, clock=shared.clock, secret=SECRET, known=known)
    assert [one.id for one in found.items] == [admitted.call]


def test_what_expired_long_ago_leaves_the_index_when_it_is_read() -> None:
    """A day after its last question ended a task's entry is taken away, not before; a new question lists the task again."""
    shared = SharedTask()
    shared.store.swap(INDEXED, ALL, expect=None)
    asked(shared, "q1")
    asked(shared, "q2", task="t2", minutes=30)

    def listed() -> list[str]:
        waiting_heads(shared.store, timestamp(shared.clock()))
        return [ref.rpartition("/")[2] for ref in shared.store.refs(WAITING)]

    shared.clock.move(seconds=20 * 3600)
    assert listed() == ["t1", "t2"]
    shared.clock.move(seconds=4 * 3600 + 20 * 60)
    assert listed() == ["t2"]
    shared.clock.move(seconds=3600)
    assert listed() == []
    asked(shared, "q3")
    assert listed() == ["t1"]
    assert [item.id for item in handover_inbox.find_waiting(shared.store, clock=shared.clock, secret=SECRET).items] == [
        "q3"
    ]
