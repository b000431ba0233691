"""`adjourn approve`, `deny`, `answer`, `decide` and `settle`: what a person says to what waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
import msgspec

from adjourn.cli.context import CommandContext, at_store, example, for_machines, user
from adjourn.cli.output import safe, say, say_facts, say_json
from adjourn.cli.task_view import approval_json, each_task
from adjourn.cli.view import author, items, one_item, records_at, written
from adjourn.errors import AdjournError, NotFoundError, UsageError
from adjourn.log.event import timestamp
from adjourn.log.kinds import tool_name
from adjourn.tasks.approvals import waiting_approvals
from adjourn.text.near_words import did_you_mean
from adjourn.text.times import ago, left

if TYPE_CHECKING:
    from adjourn.cli.view import Item
    from adjourn.knowledge.model.documents import Tree
    from adjourn.knowledge.records.store import CRStore
    from adjourn.tasks.ledger import Approval, OpenCall


_RECORD = click.option(
    "--record", metavar="RECORD", default="", help="Record to look in, if several have that id."
)


@click.command(epilog=example("adjourn approve", "adjourn approve k3f9q2"))
@click.argument("question", default="")
@_RECORD
@at_store
@for_machines
def approve(context: CommandContext, question: str, *, record: str, as_json: bool) -> None:
    """Approve a call, or a resume point of a record, that waits for a person; without QUESTION, list what waits.

    QUESTION is its id or a beginning of it. An approved call may run once, with this tool and these arguments, until the time shown: a
    call that still waits runs at once; one that timed out runs when the agent repeats it. To approve a resume point is to
    attest to its conditions; its steps may then start once.
    """
    _answer(context, question, record, yes=True, as_json=as_json)


@click.command(epilog=example("adjourn deny k3f9q2", 'adjourn deny deploy --because "not on a Friday"'))
@click.argument("question", default="")
@click.option("--because", metavar="TEXT", default="", help="Give the reason, for a resume point.")
@_RECORD
@at_store
@for_machines
def deny(context: CommandContext, question: str, *, because: str, record: str, as_json: bool) -> None:
    """Deny a call, or a resume point of a record, that waits for a person; without QUESTION, list what waits.

    Also revokes an approval that was not used yet. A denied resume point stays denied.
    """
    _answer(context, question, record, yes=False, because=because, as_json=as_json)


@click.command(
    "answer",
    epilog=example("adjourn answer", "adjourn answer q1 PostgreSQL", 'adjourn answer q1 --skip "no matter"'),
)
@click.argument("question", default="")
@click.argument("text", metavar="[ANSWER]", default="")
@click.option("--skip", metavar="REASON", default="", help="Skip the question, for REASON.")
@click.option("--learn", is_flag=True, help="Record the answer as a learning, too.")
@_RECORD
@at_store
@for_machines
def answer_(
    context: CommandContext, question: str, text: str, *, skip: str, learn: bool, record: str, as_json: bool
) -> None:
    """Answer a question that an agent has left in a record; without QUESTION, list the open ones.

    QUESTION is its id or a beginning of it; ANSWER is one of its options, where it has any.
    """
    store = records_at(context)
    known = items(store, "question")
    unanswered = [one for one in known if one.item["status"] == "open"]
    if not question:
        _list_questions(unanswered, as_json=as_json)
        return
    if bool(text) == bool(skip):
        raise UsageError("no answer is given", "give an answer, or --skip with a reason")
    meant = [one for one in unanswered if one.id.startswith(question)] or known
    found = one_item(meant, question, "question", "list the open ones: adjourn answer", record)
    after = (
        store.skip_question(found.cr_id, found.id, skip, author())
        if skip
        else store.answer_question(found.cr_id, found.id, text, author(), learn=learn)
    )
    if as_json:
        say_json(written(after, question=next(q for q in after["questionsForUser"] if q["id"] == found.id)))
        return
    say(f"{'skipped' if skip else 'answered'}: {safe(found.item['question'])}", "green")
    if freed := [one["label"] for one in store.usable_resume_points(found.cr_id)]:
        say(f"  can start now: {safe(', '.join(freed))}")


def _answer(
    context: CommandContext, start: str, record: str, *, yes: bool, because: str = "", as_json: bool
) -> None:
    from adjourn.tasks.approvals import answer

    waiting = _open(context)
    points = [
        one for one in items(records_at(context), "resume point") if one.item["approvalStatus"] == "pending"
    ]
    if not start:
        _list(_asked(context), points, context.now, as_json=as_json)
        return
    named = {one.id for one in points if one.id.startswith(start)}
    if record or (named and (start in named or not any(asked.id.startswith(start) for _, asked in waiting))):
        _decide(context, points, start, record, yes=yes, because=because, as_json=as_json)
        return
    task, asked = _one(waiting, start)
    asked = answer(context.writable(task), asked.id, yes=yes, via="cli", by=user())
    if as_json:
        say_json(approval_json(asked, task) | {"answer": "approved" if yes else "denied"})
        return
    what = f"{safe(tool_name(asked))} {safe(asked.arguments)}".rstrip()
    say(f"{'approved' if yes else 'denied'}: {what}", "green" if yes else "red")
    if yes:
        say(f"  task {task}; valid for one call, {left(asked.expires, context.now)}")


def _decide(
    context: CommandContext,
    points: list[Item],
    start: str,
    record: str,
    *,
    yes: bool,
    because: str,
    as_json: bool,
) -> None:
    store, by = records_at(context), author()
    found = one_item(points, start, "resume point", "list them: adjourn approve", record)
    after = (
        store.approve_resume_point(found.cr_id, found.id, by)
        if yes
        else store.deny_resume_point(found.cr_id, found.id, because or f"denied by {by.id}", by)
    )
    point = next(one for one in after["resumePoints"] if one["id"] == found.id)
    if as_json:
        say_json(written(after, resumePoint=point))
        return
    say(f"{'approved' if yes else 'denied'}: {safe(point['label'])}", "green" if yes else "red")
    for number, step in enumerate(point["nextSteps"] if yes else (), 1):
        say(f"  {number}. {safe(step)}")
    for path in point.get("alternativePaths", ()) if not yes else ():
        say(f"  instead, {safe(path['condition'])}: {safe('; '.join(path['steps']))}")


def _open(context: CommandContext) -> list[tuple[str, Approval]]:
    """Questions of all tasks that can still be answered, the newest last."""
    stamp = timestamp(context.now)
    found = []
    for name, task in each_task(context):
        if not isinstance(task, AdjournError):
            found += [(name, asked) for asked in task.ledger.approvals.values() if asked.expires > stamp]
    return sorted(found, key=lambda pair: pair[1].asked)


def _asked(context: CommandContext) -> list[tuple[str, Approval]]:
    """Questions of all tasks that wait, the newest last."""
    found = []
    for name, task in each_task(context):
        if not isinstance(task, AdjournError):
            found += [(name, asked) for asked in waiting_approvals(task.ledger, context.now)]
    return sorted(found, key=lambda pair: pair[1].asked)


def _one(waiting: list[tuple[str, Approval]], start: str) -> tuple[str, Approval]:
    found = [pair for pair in waiting if pair[1].id == start] or [
        pair for pair in waiting if pair[1].id.startswith(start)
    ]
    if len(found) != 1:
        count = f"{len(found)} questions begin with {start!r}" if found else f"no open question is {start!r}"
        near = "" if found else did_you_mean(start, [asked.id for _, asked in waiting])
        raise NotFoundError(
            count,
            near or "list the open ones: adjourn approve; an expired one is asked again on the next call",
        )
    return found[0]


def _list(waiting: list[tuple[str, Approval]], points: list[Item], now: int, *, as_json: bool) -> None:
    if as_json:
        told: dict[str, Any] = {"questions": [approval_json(asked, task) for task, asked in waiting]}
        say_json(told | {"resumePoints": [one.item | {"record": one.cr_id} for one in points]})
        return
    if not waiting and not points:
        say("nothing waits for an answer")
        return
    say(f"{len(waiting) + len(points)} waiting: `adjourn approve ID`, or `adjourn deny ID`")
    for task, asked in waiting:
        say(f"\n{asked.id}  {safe(tool_name(asked))}")
        refused = (
            f", not confirmed ({safe(asked.refused)}): after an approval, the agent repeats the call"
            if asked.refused
            else ""
        )
        say_facts(
            ("  arguments", asked.arguments),
            ("  why", asked.cause),
            ("  task", task),
            ("  time", left(asked.expires, now) + refused),
        )
    for one in points:
        point = one.item
        say(f"\n{safe(one.id)}  {safe(point['label'])}")
        say_facts(
            ("  when", point["when"]),
            ("  provided", "; ".join(point["preconditions"])),
            ("  then", "; ".join(point["nextSteps"])),
            ("  needs", point["requiredAuthority"]),
            ("  record", one.cr_id),
        )


def _list_questions(found: list[Item], *, as_json: bool) -> None:
    if as_json:
        say_json(questions=[one.item | {"record": one.cr_id} for one in found])
        return
    if not found:
        say("no question is open")
        return
    say(f"{len(found)} open: `adjourn answer ID ANSWER`, or --skip REASON")
    for one in found:
        asked = one.item
        say(f"\n{safe(one.id)}  {safe(asked['question'])}")
        say_facts(
            ("  context", asked["context"]),
            ("  options", ", ".join(asked.get("options", ()))),
            ("  blocks", ", ".join(asked["blocksResumePoints"])),
            ("  record", one.cr_id),
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

    def apply(self, store: CRStore, found: Item) -> Tree:
        """Change the decision. Returns the new version of its record."""
        by = author()
        if self.override is not None:
            return store.override_decision(found.cr_id, found.id, self.override, by, rationale=self.because)
        if self.contest is not None:
            return store.contest_decision(found.cr_id, found.id, self.contest, self.because, by)
        status: Literal["accepted", "rejected"] = "accepted" if self.accept else "rejected"
        return store.settle_decision(found.cr_id, found.id, status, by, variant=self.variant)


@click.command(
    epilog=example(
        "adjourn decide",
        'adjourn decide d1 --override "Use PostgreSQL" --because "two machines write"',
        'adjourn decide d1 --contest "Use SQLite" --because "nothing to run"',
        "adjourn decide d1 --accept --variant 1",
    )
)
@click.argument("decision", default="")
@click.option("--override", metavar="TEXT", default=None, help="Replace the decision with this text.")
@click.option(
    "--contest", metavar="TEXT", default=None, help="Contest the decision with this text: it is open again."
)
@click.option("--accept", is_flag=True, help="Accept the decision.")
@click.option("--reject", is_flag=True, help="Reject the decision.")
@click.option(
    "--variant", type=click.IntRange(min=0), metavar="N", default=None, help="Accept the text of variant N."
)
@click.option("--because", metavar="TEXT", default="", help="Give the reason.")
@click.option(
    "--record", metavar="RECORD", default="", help="Record to look in, if several have such a decision."
)
@at_store
@for_machines
def decide(context: CommandContext, decision: str, *, record: str, as_json: bool, **action: Any) -> None:
    """Override, contest or settle a decision in a record; without DECISION, list those that are not settled.

    DECISION is its id or a beginning of it. The earlier text stays as a variant.
    """
    store = records_at(context)
    known = items(store, "decision")
    given = DecisionAction(**action)
    if not decision:
        if given.actions:
            raise UsageError("no decision is named", "list those that are not settled: adjourn decide")
        _decide_list(
            [one for one in known if one.item["status"] in ("contested", "tentative")], as_json=as_json
        )
        return
    if given.actions != 1:
        raise UsageError("no action is given", "give --override, --contest, --accept or --reject")
    found = one_item(known, decision, "decision", "list them: adjourn record show", record)
    if given.contest is not None and not given.because:
        raise UsageError("why?", "give the reason with --because")
    after = given.apply(store, found)
    changed = next(item for item in after["decisions"] if item["id"] == found.id)
    if as_json:
        say_json(written(after, decision=changed))
        return
    say(f"{changed['status']}: {safe(found.id)} {safe(changed['description'])}")
    if changed["affects"]:
        say(f"  review again: {safe(', '.join(changed['affects']))}")


def _decide_list(found: list[Item], *, as_json: bool) -> None:
    if as_json:
        say_json(decisions=[one.item | {"record": one.cr_id} for one in found])
        return
    if not found:
        say("every decision is settled")
        return
    say(f"{len(found)} not settled: `adjourn decide ID --accept`, --reject, --override or --contest")
    for one in found:
        variants = one.item.get("variants", ())
        say(f"\n{safe(one.id)}  {safe(one.item['description'])} ({one.item['status']})")
        rows = [
            (f"  variant {n}", f"{v['author']['id']}: {v['decision']} ({v['rationale']})")
            for n, v in enumerate(variants)
        ]
        say_facts(("  because", one.item["rationale"]), *rows, ("  record", one.cr_id))


# --- `adjourn settle`


@click.command(
    epilog=example("adjourn settle", 'adjourn settle 7k3f9q2m.4 --done --note "the file is there"')
)
@click.argument("call", default="")
@click.option("--done", is_flag=True, help="Record that its effect happened.")
@click.option("--not-done", "not_done", is_flag=True, help="Record that its effect did not happen.")
@click.option("--note", default="", metavar="TEXT", help="Record how you know.")
@at_store
@for_machines
def settle(
    context: CommandContext, call: str, *, done: bool, not_done: bool, note: str, as_json: bool
) -> None:
    """Record whether a call in doubt took effect; without CALL, list the calls in doubt.

    A call is in doubt when it was sent and its session ended before an answer came. Check what it would have changed, then record
    the result. CALL is its id or a beginning of it.
    """
    from adjourn.checkpoints.save import refresh_page
    from adjourn.tasks.approvals import settle_doubt
    from adjourn.tasks.lease import expire_dead_sessions

    known = _in_doubt(context)
    if not call:
        if done or not_done or note:
            raise UsageError("no call is named", "list the calls in doubt: adjourn settle")
        _settle_list(known, context.now, as_json=as_json)
        return
    if done == not_done:
        raise UsageError("no result is given", "give --done or --not-done")
    task, found = _settle_one(known, call)
    writable = context.writable(task)
    expire_dead_sessions(writable)
    settle_doubt(writable, found.call, happened=done, by=user(), note=note)
    refresh_page(writable, context.root, context.tree)
    outcome = "done" if done else "not-done"
    if as_json:
        say_json(call=found.call, task=task, tool=found.tool, server=found.server, outcome=outcome)
    else:
        say(f"settled as {outcome}: {found.call} {safe(tool_name(found))} {safe(found.arguments)}".rstrip())


def _in_doubt(context: CommandContext) -> list[tuple[str, OpenCall]]:
    from adjourn.cli.task_view import doubts, holders

    found = []
    for name, task in each_task(context):
        if not isinstance(task, AdjournError):
            found += [(name, one) for one in doubts(task.ledger, holders(context, task.ledger))]
    return found


def _settle_one(known: list[tuple[str, OpenCall]], start: str) -> tuple[str, OpenCall]:
    found = [pair for pair in known if pair[1].call == start] or [
        pair for pair in known if pair[1].call.startswith(start)
    ]
    if len(found) != 1:
        count = (
            f"{len(found)} calls in doubt begin with {start!r}" if found else f"no call {start!r} is in doubt"
        )
        near = "" if found else did_you_mean(start, [call.call for _, call in known])
        raise NotFoundError(count, near or "list the calls in doubt: adjourn settle")
    return found[0]


def _settle_list(known: list[tuple[str, OpenCall]], now: int, *, as_json: bool) -> None:
    if as_json:
        say_json(inDoubt=[msgspec.to_builtins(one) | {"task": task} for task, one in known])
        return
    if not known:
        say("no call is in doubt")
        return
    say(f"{len(known)} in doubt: `adjourn settle CALL --done`, or `--not-done`")
    for task, one in known:
        say(f"\n{safe(one.call)}  {safe(tool_name(one))}")
        say_facts(("  arguments", one.arguments), ("  sent", ago(one.since, now)), ("  task", task))
