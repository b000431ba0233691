"""`adjourn approve`, `deny`, `answer`, `decide` and `settle`: what a person says to what waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import click
import msgspec

from adjourn.cli.context import CommandContext, at_store, example, flag, for_machines, text_option, user
from adjourn.cli.output import safe, say, say_facts, say_json
from adjourn.cli.record_view import (
    RECORD_OPTION,
    author,
    beginning_with,
    items,
    list_items,
    one_item,
    records_at,
    say_freed,
    written,
)
from adjourn.cli.task_view import approval_json, doubts, holders, readable_ledgers
from adjourn.errors import NotFoundError, UsageError
from adjourn.knowledge.model.documents import by_id
from adjourn.log.event import timestamp
from adjourn.log.kinds import tool_name
from adjourn.tasks.approvals import waiting_approvals
from adjourn.text.near_words import did_you_mean
from adjourn.text.times import ago, left

if TYPE_CHECKING:
    from adjourn.cli.record_view import Item
    from adjourn.knowledge.model.documents import Tree
    from adjourn.knowledge.records.store import RecordTrees
    from adjourn.tasks.entries import Approval, OpenCall
    from adjourn.tasks.ledger import Ledger

_T = TypeVar("_T")


@click.command(epilog=example("adjourn approve", 'adjourn approve k3f9q2 --note "only on staging"'))
@click.argument("question", default="")
@text_option("--note TEXT", "Record something with the approval; the next session learns it.")
@RECORD_OPTION
@at_store
@for_machines
def approve(context: CommandContext, question: str, *, note: str, record: str, as_json: bool) -> None:
    """Approve a call, or a resume point of a record, that waits for a person; without QUESTION, list what waits.

    QUESTION is its id or a beginning of it. An approved call may run once, with this tool and these arguments, until the time shown: a
    call that still waits runs at once; one that timed out runs when the agent repeats it. Approving a resume
    point confirms that its conditions are met, and lets its steps start once.
    """
    _answer(context, question, record, yes=True, reason=note, as_json=as_json)


@click.command(epilog=example("adjourn deny k3f9q2", 'adjourn deny deploy --because "not on a Friday"'))
@click.argument("question", default="")
@text_option("--because TEXT", "Give the reason; the agent and each later session receive it.")
@RECORD_OPTION
@at_store
@for_machines
def deny(context: CommandContext, question: str, *, because: str, record: str, as_json: bool) -> None:
    """Deny a call, or a resume point of a record, that waits for a person; without QUESTION, list what waits.

    Also revokes an approval that was not used yet. A denied resume point stays denied.
    """
    _answer(context, question, record, yes=False, reason=because, as_json=as_json)


@click.command(
    "answer", epilog=example("adjourn answer", "adjourn answer q1 PostgreSQL", 'adjourn answer q1 --skip "no matter"')
)
@click.argument("question", default="")
@click.argument("text", metavar="[ANSWER]", default="")
@text_option("--skip REASON", "Skip the question, for REASON.")
@flag("--learn", "Record the answer as a learning, too.")
@RECORD_OPTION
@at_store
@for_machines
def answer_(
    context: CommandContext, question: str, text: str, *, skip: str, learn: bool, record: str, as_json: bool
) -> None:
    """Answer a question that an agent has left in a record; without QUESTION, list the open ones.

    QUESTION is its id or a beginning of it; ANSWER is one of its options, where it has any.
    """
    store = records_at(context)
    entries = items(store, "question")
    unanswered = [entry for entry in entries if entry.item["status"] == "open"]
    if not question:
        heading = "open: `adjourn answer ID ANSWER`, or --skip REASON"
        list_items(unanswered, "questions", "no question is open", heading, _question, as_json=as_json)
        return
    if bool(text) == bool(skip):
        raise UsageError("no answer is given", "give an answer, or --skip with a reason")
    meant = [entry for entry in unanswered if entry.id.startswith(question)] or entries
    answered = one_item(meant, question, "question", "list the open ones: adjourn answer", record)
    after = (
        store.skip_question(answered.cr_id, answered.id, skip, author())
        if skip
        else store.answer_question(answered.cr_id, answered.id, text, author(), learn=learn)
    )
    if as_json:
        say_json(written(after, question=by_id(after["questionsForUser"])[answered.id]))
        return
    say(f"{'skipped' if skip else 'answered'}: {safe(answered.item['question'])}", "green")
    say_freed(store, answered.cr_id)


def _question(item: Tree) -> tuple[str, Sequence[tuple[str, str]]]:
    options, blocks = ", ".join(item.get("options", ())), ", ".join(item["blocksResumePoints"])
    return safe(item["question"]), [("  context", item["context"]), ("  options", options), ("  blocks", blocks)]


def _answer(context: CommandContext, start: str, record: str, *, yes: bool, reason: str, as_json: bool) -> None:
    from adjourn.tasks.approvals import answer

    stamp = timestamp(context.now)
    waiting = _questions(context, lambda ledger: [q for q in ledger.approvals.values() if q.expires > stamp])
    points = [
        point for point in items(records_at(context), "resume point") if point.item["approvalStatus"] == "pending"
    ]
    if not start:
        asked_now = _questions(context, lambda ledger: waiting_approvals(ledger, context.now))
        _list(asked_now, points, context.now, as_json=as_json)
        return
    named = {point.id for point in points if point.id.startswith(start)}
    if record or (named and (start in named or not any(approval.id.startswith(start) for _, approval in waiting))):
        _decide(context, points, start, record, yes=yes, reason=reason, as_json=as_json)
        return
    task, approval = _only(
        waiting,
        start,
        lambda question: question.id,
        ("questions", f"no open question is {start!r}"),
        "list the open ones: adjourn approve; an expired one is asked again on the next call",
    )
    approval = answer(context.writable(task), approval.id, yes=yes, via="cli", by=user(), reason=reason)
    if as_json:
        say_json(approval_json(approval, task) | {"answer": "approved" if yes else "denied"})
        return
    call = f"{safe(tool_name(approval))} {safe(approval.arguments)}".rstrip()
    say(f"{'approved' if yes else 'denied'}: {call}", "green" if yes else "red")
    if yes:
        say(f"  task {task}; valid for one call, {left(approval.expires, context.now)}")


def _decide(
    context: CommandContext, points: list[Item], start: str, record: str, *, yes: bool, reason: str, as_json: bool
) -> None:
    store, by = records_at(context), author()
    entry = one_item(points, start, "resume point", "list them: adjourn approve", record)
    after = (
        store.approve_resume_point(entry.cr_id, entry.id, by, note=reason)
        if yes
        else store.deny_resume_point(entry.cr_id, entry.id, reason or f"denied by {by.id}", by)
    )
    point = by_id(after["resumePoints"])[entry.id]
    if as_json:
        say_json(written(after, resumePoint=point))
        return
    say(f"{'approved' if yes else 'denied'}: {safe(point['label'])}", "green" if yes else "red")
    for number, step in enumerate(point["nextSteps"] if yes else (), 1):
        say(f"  {number}. {safe(step)}")
    for path in point.get("alternativePaths", ()) if not yes else ():
        say(f"  instead, {safe(path['condition'])}: {safe('; '.join(path['steps']))}")


def _questions(context: CommandContext, of_task: Callable[[Ledger], Iterable[Approval]]) -> list[tuple[str, Approval]]:
    """Questions of all tasks with their tasks, the newest last."""
    found = [(name, approval) for name, ledger in readable_ledgers(context) for approval in of_task(ledger)]
    return sorted(found, key=lambda pair: pair[1].asked)


def _only(
    entries: list[tuple[str, _T]], start: str, id_of: Callable[[_T], str], words: tuple[str, str], remedy: str
) -> tuple[str, _T]:
    """The entry whose id is, or starts with, `start`. `words`: how several are called, and the message for none."""
    matches = beginning_with(start, entries, lambda entry: id_of(entry[1]))
    if len(matches) != 1:
        near = "" if matches else did_you_mean(start, [id_of(entry) for _, entry in entries])
        message = f"{len(matches)} {words[0]} start with {start!r}" if matches else words[1]
        raise NotFoundError(message, near or remedy)
    return matches[0]


def _list(waiting: list[tuple[str, Approval]], points: list[Item], now: int, *, as_json: bool) -> None:
    if as_json:
        questions = [approval_json(approval, task) for task, approval in waiting]
        say_json(questions=questions, resumePoints=[point.item | {"record": point.cr_id} for point in points])
        return
    if not waiting and not points:
        say("nothing waits for an answer")
        return
    say(f"{len(waiting) + len(points)} waiting: `adjourn approve ID`, or `adjourn deny ID`")
    for task, approval in waiting:
        say(f"\n{approval.id}  {safe(tool_name(approval))}")
        refused = (
            f", not confirmed ({safe(approval.refused)}): after an approval, the agent repeats the call"
            if approval.refused
            else ""
        )
        say_facts(
            ("  arguments", approval.arguments),
            ("  why", approval.cause),
            ("  task", task),
            ("  time", left(approval.expires, now) + refused),
        )
    for entry in points:
        point = entry.item
        say(f"\n{safe(entry.id)}  {safe(point['label'])}")
        say_facts(
            ("  when", point["when"]),
            ("  provided", "; ".join(point["preconditions"])),
            ("  then", "; ".join(point["nextSteps"])),
            ("  needs", point["requiredAuthority"]),
            ("  record", entry.cr_id),
        )


# --- `adjourn decide`


class DecisionAction(NamedTuple):
    """What to do with a decision, as the options of `adjourn decide` say it."""

    override: str | None
    contest: str | None
    accept: bool
    reject: bool
    variant: int | None
    because: str

    @property
    def actions(self) -> int:
        """How many actions were given; one is right."""
        return sum([self.override is not None, self.contest is not None, self.accept, self.reject])

    def apply(self, store: RecordTrees, entry: Item) -> Tree:
        """Change the decision. Returns the new version of its record."""
        by = author()
        if self.override is not None:
            return store.override_decision(entry.cr_id, entry.id, self.override, by, rationale=self.because)
        if self.contest is not None:
            return store.contest_decision(entry.cr_id, entry.id, self.contest, self.because, by)
        status: Literal["accepted", "rejected"] = "accepted" if self.accept else "rejected"
        return store.settle_decision(entry.cr_id, entry.id, status, by, variant=self.variant)


@click.command(
    epilog=example(
        "adjourn decide",
        'adjourn decide d1 --override "Use PostgreSQL" --because "two machines write"',
        'adjourn decide d1 --contest "Use SQLite" --because "nothing to run"',
        "adjourn decide d1 --accept --variant 1",
    )
)
@click.argument("decision", default="")
@text_option("--override TEXT", "Replace the decision with this text.", default=None)
@text_option("--contest TEXT", "Contest the decision with this text: it is open again.", default=None)
@flag("--accept", "Accept the decision.")
@flag("--reject", "Reject the decision.")
@click.option("--variant", type=click.IntRange(min=0), metavar="N", default=None, help="Accept the text of variant N.")
@text_option("--because TEXT", "Give the reason.")
@RECORD_OPTION
@at_store
@for_machines
def decide(context: CommandContext, decision: str, *, record: str, as_json: bool, **action: Any) -> None:
    """Override, contest or settle a decision in a record; without DECISION, list those that are not settled.

    DECISION is its id or a beginning of it. The earlier text stays as a variant.
    """
    store = records_at(context)
    entries = items(store, "decision")
    change = DecisionAction(**action)
    if not decision:
        if change.actions:
            raise UsageError("no decision is named", "list those that are not settled: adjourn decide")
        open_ones = [entry for entry in entries if entry.item["status"] in ("contested", "tentative")]
        heading = "not settled: `adjourn decide ID --accept`, --reject, --override or --contest"
        list_items(open_ones, "decisions", "every decision is settled", heading, _decision, as_json=as_json)
        return
    if change.actions != 1:
        raise UsageError("no action is given", "give --override, --contest, --accept or --reject")
    target = one_item(entries, decision, "decision", "list them: adjourn record show", record)
    if change.contest is not None and not change.because:
        raise UsageError("why?", "give the reason with --because")
    after = change.apply(store, target)
    changed = by_id(after["decisions"])[target.id]
    if as_json:
        say_json(written(after, decision=changed))
        return
    say(f"{changed['status']}: {safe(target.id)} {safe(changed['description'])}")
    if changed["affects"]:
        say(f"  review again: {safe(', '.join(changed['affects']))}")


def _decision(item: Tree) -> tuple[str, Sequence[tuple[str, str]]]:
    variants = [
        (f"  variant {number}", f"{variant['author']['id']}: {variant['decision']} ({variant['rationale']})")
        for number, variant in enumerate(item.get("variants", ()))
    ]
    return f"{safe(item['description'])} ({item['status']})", [("  because", item["rationale"]), *variants]


# --- `adjourn settle`


@click.command(epilog=example("adjourn settle", 'adjourn settle 7k3f9q2m.4 --done --note "the file is there"'))
@click.argument("call", default="")
@flag("--done", "Record that its effect happened.")
@flag("--not-done", "Record that its effect did not happen.", dest="not_done")
@text_option("--note TEXT", "Record how you know.")
@at_store
@for_machines
def settle(context: CommandContext, call: str, *, done: bool, not_done: bool, note: str, as_json: bool) -> None:
    """Record whether a call in doubt took effect; without CALL, list the calls in doubt.

    A call is in doubt when it was sent and its session ended before an answer came. A destructive call that failed is listed, too.
    Check what it would have changed, then record the result. CALL is its id or a beginning of it.
    """
    from adjourn.checkpoints.save import refresh_page
    from adjourn.tasks.approvals import settle_doubt
    from adjourn.tasks.lease import expire_dead_sessions

    open_calls = [
        (name, open_call)
        for name, ledger in readable_ledgers(context)
        for open_call in (
            *doubts(ledger, holders(context, ledger)),
            *(failed.call for failed in ledger.failed.values()),
        )
    ]
    if not call:
        if done or not_done or note:
            raise UsageError("no call is named", "list the calls in doubt: adjourn settle")
        _settle_list(open_calls, context.now, as_json=as_json)
        return
    if done == not_done:
        raise UsageError("no result is given", "give --done or --not-done")
    task, doubtful = _only(
        open_calls,
        call,
        lambda open_call: open_call.call,
        ("calls in doubt", f"no call {call!r} is in doubt"),
        "list the calls in doubt: adjourn settle",
    )
    writable = context.writable(task)
    expire_dead_sessions(writable)
    settle_doubt(writable, doubtful.call, happened=done, by=user(), note=note)
    refresh_page(writable, context.root, context.tree)
    outcome = "done" if done else "not-done"
    if as_json:
        say_json(call=doubtful.call, task=task, tool=doubtful.tool, server=doubtful.server, outcome=outcome)
    else:
        say(f"settled as {outcome}: {doubtful.call} {safe(tool_name(doubtful))} {safe(doubtful.arguments)}".rstrip())


def _settle_list(open_calls: list[tuple[str, OpenCall]], now: int, *, as_json: bool) -> None:
    if as_json:
        say_json(inDoubt=[msgspec.to_builtins(call) | {"task": task} for task, call in open_calls])
        return
    if not open_calls:
        say("no call is in doubt")
        return
    say(f"{len(open_calls)} in doubt: `adjourn settle CALL --done`, or `--not-done`")
    for task, call in open_calls:
        say(f"\n{safe(call.call)}  {safe(tool_name(call))}")
        say_facts(("  arguments", call.arguments), ("  sent", ago(call.since, now)), ("  task", task))
