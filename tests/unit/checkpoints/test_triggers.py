"""Checkpoints before calls, and at shares of budgets: made before the call is decided on, once, or the call goes nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints.page import AgentReport, ReportedStep
from adjourn.checkpoints.save import CheckpointRequest, finish, save_checkpoint
from adjourn.checkpoints.triggers import due_shares
from adjourn.errors import StoreError
from adjourn.log import kinds
from adjourn.log.event import SYSTEM, Actor
from adjourn.tasks.decision import Block, Forward, ToolRequest
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.troubles import open_troubles
from support.cases import for_each
from support.checkpoints import named
from support.events import TASK
from support.policies import policy_of
from support.workspace import Workspace

PERSON = Actor("ann", "human")


def due(used: int, *rules: str, marks: Any = (), **facts: Any) -> list[str]:
    """The triggers of what is due when so many calls are used."""
    ledger = Ledger(task=TASK, calls_used=used, marks=dict.fromkeys(marks, 0), **facts)
    return [trigger for _, _, trigger in due_shares(ledger, policy_of("use a", *rules, version="v1"))]


SHARES = ("checkpoint at 75%, 90%",)
AT_75, AT_90, SPENT = "at 75% of calls=20", "at 90% of calls=20", "at 100% of calls=20"


@for_each(
    ("used", "marks", "expected"),
    [
        (14, [], []),
        (15, [], [AT_75]),
        (16, [AT_75], []),
        (18, [AT_75], [AT_90]),
        (18, [], [AT_90]),
        (19, [AT_90], []),
        (20, [AT_90], [SPENT]),
        (99, [AT_90, SPENT], []),
    ],
)
def test_a_share_is_due_once_and_the_largest_stands_for_the_others(
    used: int, marks: list[str], expected: list[str]
) -> None:
    """When a share is spent, a checkpoint is due until it was made; several at once need one."""
    assert due(used, "budget calls=20", *SHARES, marks=marks) == expected


def test_a_budget_that_is_raised_arms_its_shares_again() -> None:
    """A raised budget arms its shares again, because the same share of another budget is another share."""
    assert due(15, "budget calls=20", *SHARES, marks=[AT_75]) == []
    assert due(15, "budget calls=40", *SHARES, marks=[AT_75]) == []
    assert due(30, "budget calls=40", *SHARES, marks=[AT_75]) == ["at 75% of calls=40"]


def test_each_budget_has_its_shares() -> None:
    """Minutes, tokens and money are watched as calls are."""
    rules = ("budget calls=20, minutes=10, tokens=1000, usd=2.5", *SHARES)
    facts = {"worked": 8 * 60_000, "tokens": 900, "micro_usd": 1_000_000}
    assert due(1, *rules, **facts) == ["at 75% of minutes=10", "at 90% of tokens=1000"]


@given(st.integers(0, 30), st.integers(0, 25))
def test_a_share_is_due_when_so_much_is_spent_and_none_of_nothing(used: int, limit: int) -> None:
    """Not a call earlier, and a budget of nothing has no shares."""
    found = due(used, f"budget calls={limit}", "checkpoint at 50%")
    assert bool(found) == (limit > 0 and used * 2 >= limit)


# --- made by the context

POLICY = ("allow read", "allow deploy.*", "checkpoint before deploy.*, at 50%", "budget calls=4")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    workspace = Workspace(tmp_path, monkeypatch)
    text = "\n".join(["policy work v1", 'goal "do it"', *POLICY, ""])
    (workspace.root / ".aex" / "policy.aex").write_text(text)
    return workspace


def test_the_checkpoint_stands_before_the_intent(workspace: Workspace) -> None:
    """A call that is named finds its checkpoint made, with its tool as the trigger; other calls have none."""
    context = workspace.context()
    workspace.work(context, "read", "deploy.run")
    order = [event.event for event in workspace.events(context.task.current())]
    assert order[-3:] == ["checkpoint.created", "tool.allowed", "tool.settled"]
    (made,) = workspace.facts(context.task.current(), kinds.CheckpointCreated)
    assert (made.trigger, made.name) == ("before deploy.run", f"{context.task.current()}-before")


def test_later_ones_take_the_name_of_the_earlier(workspace: Workspace) -> None:
    """A thousand checkpoints before calls are one name, and those at a share another."""
    context = workspace.context()
    workspace.work(context, "deploy.a", "deploy.b", "deploy.c")
    task = context.task.current()
    assert set(named(workspace.store)) == {f"{task}-before", f"{task}-at-50"}
    triggers = [fact.trigger for fact in workspace.facts(task, kinds.CheckpointCreated)]
    assert triggers == ["before deploy.a", "before deploy.b", "before deploy.c", "at 50% of calls=4"]


def test_a_call_that_no_rule_lets_pass_makes_none(workspace: Workspace) -> None:
    """What is refused anyway costs no checkpoint."""
    context = workspace.context()
    workspace.write_policy("allow read", "budget calls=9")
    (workspace.root / ".aex" / "policy.aex").write_text(
        'policy work v1\ngoal "do it"\nallow read\ndeny deploy.*\ncheckpoint before deploy.*\n'
    )
    context = workspace.context()
    workspace.work(context, "deploy.run")
    assert workspace.facts(context.task.current(), kinds.CheckpointCreated) == []


def test_without_its_checkpoint_a_call_goes_nowhere(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the checkpoint cannot be written, the call is not decided on, and no intent is written."""
    context = workspace.context()
    workspace.work(context, "read")

    def broken(*_: object, **__: object) -> None:
        raise StoreError("no room")

    monkeypatch.setattr("adjourn.host.keys.private_key", broken)
    with pytest.raises(StoreError):
        context.sessions.admit([ToolRequest(tool="deploy.run", digest="1" * 64)])
    assert workspace.task(context.task.current()).ledger.calls_used == 1


def test_a_session_that_was_given_up_sits_down_again_for_its_checkpoint(workspace: Workspace) -> None:
    """A session that others took for dead is not locked out by the checkpoint that its call waits for."""
    context = workspace.context()
    session = workspace.work(context, "read")
    lost = kinds.SessionLost(calls=[], lost=session.id, reason="expired")
    other = workspace.task(context.task.current())
    from adjourn.tasks.task import NewEvent

    other.commit(lambda _: [NewEvent(lost)])
    _, (admitted,) = context.sessions.admit([ToolRequest(tool="deploy.run", digest="1" * 64)])
    assert isinstance(admitted.decision, Forward)


def test_a_spent_budget_still_refuses(workspace: Workspace) -> None:
    """A checkpoint at a share is no way around the budget."""
    context = workspace.context()
    workspace.work(context, "read", "read", "read", "read")
    _, (admitted,) = context.sessions.admit([ToolRequest(tool="read", digest="1" * 64)])
    assert isinstance(admitted.decision, Block)


# --- the discipline, without a word in the policy


def plain(workspace: Workspace, budget: int = 50, **options: Any) -> Any:
    text = f'policy work v1\ngoal "do it"\nallow *\nbudget calls={budget}\n'
    (workspace.root / ".aex" / "policy.aex").write_text(text)
    return workspace.context(**options)


def call(workspace: Workspace, context: Any, tool: str, outcome: str = "ok", **more: Any) -> None:
    """One call, decided on and settled as the proxy does it."""
    workspace.clock.move(seconds=1)
    one = ToolRequest(tool=tool, digest="1" * 64, arguments="{}", **more)
    session, (admitted,) = context.sessions.admit([one])
    if admitted.call:
        facts = [kinds.ToolSettled(call=admitted.call, outcome=outcome)]  # type: ignore[arg-type]
        session.settle(facts)
        session.checkpoint_after(facts)


def made(workspace: Workspace, context: Any) -> list[tuple[int, str]]:
    """The calls that were used at each checkpoint, and its trigger."""
    found = []
    for fact in workspace.facts(context.task.current(), kinds.CheckpointCreated):
        stated = workspace.store.get_blob(fact.document)
        assert stated is not None
        found.append((json.loads(stated)["callsUsed"], fact.trigger))
    return found


def test_a_budget_of_50_is_checkpointed_at_38_and_45_and_when_it_is_spent(workspace: Workspace) -> None:
    """Once each, as soon as the share is reached."""
    context = plain(workspace)
    for _ in range(52):
        call(workspace, context, "read")
    assert made(workspace, context) == [
        (38, "at 75% of calls=50"), (45, "at 90% of calls=50"), (50, "at 100% of calls=50"),
    ]  # fmt: skip


def test_a_jump_over_both_shares_makes_one(workspace: Workspace) -> None:
    """Calls that are decided on together may take the budget past both."""
    context = plain(workspace)
    calls = [ToolRequest(tool="read", digest="1" * 64, effectful=False) for _ in range(46)]
    session, _ = context.sessions.admit(calls)
    session.checkpoint_after([])
    assert made(workspace, context) == [(46, "at 90% of calls=50")]


def test_a_raised_budget_is_armed_again(workspace: Workspace) -> None:
    """The shares of a raised budget are those of the new size."""
    context = plain(workspace, 4)
    for _ in range(4):
        call(workspace, context, "read")
    text = (workspace.root / ".aex" / "policy.aex").read_text()
    (workspace.root / ".aex" / "policy.aex").write_text(text.replace("calls=4", "calls=40"))
    for _ in range(27):
        call(workspace, context, "read")
    assert made(workspace, context) == [
        (3, "at 75% of calls=4"), (4, "at 100% of calls=4"), (30, "at 75% of calls=40"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "more", "label"),
    [
        ("shell.exec", {"given": {"command": "rm -rf build"}}, "shell.exec: rm"),
        ("deploy.run", {}, "deploy.run: deploy"),
        ("odd", {"destructive": True}, "odd"),
    ],
)
def test_a_destructive_call_stands_between_two_checkpoints(
    workspace: Workspace, tool: str, more: dict[str, Any], label: str
) -> None:
    """By a rule on commands, by the tool's name, by the tool's own word: one before it, one after it."""
    context = plain(workspace)
    call(workspace, context, "read")
    call(workspace, context, tool, **more)
    assert made(workspace, context) == [(1, f"before {label}"), (2, f"after {label}")]
    order = [event.event for event in workspace.events(context.task.current())][-4:]
    assert order == ["checkpoint.created", "tool.allowed", "tool.settled", "checkpoint.created"]


def run(workspace: Workspace, context: Any, command: str, outcome: str = "ok") -> None:
    """A command line, run by a shell."""
    workspace.clock.move(seconds=1)
    given = {"command": command}
    one = ToolRequest(tool="shell.exec", digest="1" * 64, arguments=json.dumps(given), given=given)
    session, (admitted,) = context.sessions.admit([one])
    facts = [kinds.ToolSettled(call=admitted.call, outcome=outcome)]  # type: ignore[arg-type]
    session.settle(facts)
    assert session.is_due_after(facts) == bool(session.task.ledger.milestones)
    session.checkpoint_after(facts)


def test_a_step_of_the_work_makes_a_checkpoint_of_its_own(workspace: Workspace) -> None:
    """A commit, a merge, and tests that pass after they failed; not those that passed before, nor what failed."""
    context = plain(workspace)
    for command, outcome in (
        ("pytest", "ok"), ("pytest", "tool-error"), ("git commit -m 'Try'", "tool-error"), ("pytest", "ok"), ("pytest", "ok"),
        ("git commit -m 'Add the retry'", "ok"), ("git merge topic", "ok"),
    ):  # fmt: skip
        run(workspace, context, command, outcome)
    assert [trigger for _, trigger in made(workspace, context)] == [
        "milestone: tests pass again: pytest", "milestone: commit: git commit -m 'Add the retry'", "milestone: merge: git merge topic",
    ]  # fmt: skip
    names = {fact.name for fact in workspace.facts(context.task.current(), kinds.CheckpointCreated)}
    assert len(names) == 1, "a later one takes the name of the one before"


def test_a_milestone_whose_session_was_killed_is_made_by_the_next(workspace: Workspace) -> None:
    """The step is in the history: whoever settles the next call makes its checkpoint."""
    context = plain(workspace)
    given = {"command": "git commit -m x"}
    one = ToolRequest(tool="shell.exec", digest="1" * 64, arguments=json.dumps(given), given=given)
    session, (admitted,) = context.sessions.admit([one])
    session.settle([kinds.ToolSettled(call=admitted.call, outcome="ok")])
    assert made(workspace, context) == []
    call(workspace, context, "note")
    assert [trigger for _, trigger in made(workspace, context)] == ["milestone: commit: git commit -m x"]


def state(workspace: Workspace, context: Any, by: Actor = SYSTEM, **items: str) -> Ledger:
    """The agent, or whom `by` names, states a plan: each item and its status."""
    steps = tuple(ReportedStep(text=text.replace("_", " "), status=status) for text, status in items.items())
    workspace.clock.move(seconds=60)
    session = context.sessions.open()
    trigger = "agent" if by is SYSTEM else "person"
    wanted = CheckpointRequest("plan", said=AgentReport(progress=steps), by=by, trigger=trigger)
    save_checkpoint(session.task, str(workspace.root), wanted, session=session if by is SYSTEM else None)
    ledger: Ledger = session.task.refresh()
    return ledger


def test_items_called_done_without_a_change_are_a_trouble(workspace: Workspace) -> None:
    """Until something is changed, the item is open again, or a person says that it is done; items that need no change are none."""
    context = plain(workspace)
    call(workspace, context, "file.read", effectful=False)
    ledger = state(workspace, context, Fix_the_retry="done", Read_the_code="done", Add_a_test="pending")
    (trouble,) = open_troubles(ledger)
    assert trouble.text == (
        '"Fix the retry" was called done, and nothing was changed since it began: check whether it is done'
    )
    assert state(workspace, context, Fix_the_retry="done", Add_a_test="done").unchanged == [
        "Fix the retry",
        "Add a test",
    ]
    assert state(workspace, context, Fix_the_retry="pending", Add_a_test="done").unchanged == ["Add a test"]
    assert state(workspace, context, PERSON, Fix_the_retry="done", Add_a_test="done").unchanged == []
    assert state(workspace, context, Fix_it="done").unchanged == ["Fix it"]
    call(workspace, context, "file.write")
    assert state(workspace, context, Fix_it="done", Rename_it="done").unchanged == []
    assert state(workspace, context, Rename_it="in_progress", Fix_it="done").unchanged == []
    assert state(workspace, context, Rename_it="done", Fix_it="done").unchanged == [], "it may have been renamed before"


def test_where_edits_are_not_seen_nobody_is_accused(workspace: Workspace) -> None:
    """A client behind proxies alone edits with tools of its own."""
    context = plain(workspace)
    call(workspace, context, "notes.read", effectful=False)
    assert state(workspace, context, Fix_the_retry="done").unchanged == []


def test_a_page_at_a_proven_item_is_named_after_it(workspace: Workspace) -> None:
    """Once a later page takes its place."""
    context = plain(workspace)
    call(workspace, context, "file.write")
    state(workspace, context, Fix_the_retry="done")
    state(workspace, context, Fix_the_retry="done", Go_on="pending")
    assert (workspace.root / "tmp" / "checkpoint-pre-done-fix-the-retry.md").is_file()


def test_a_task_that_its_agent_finished_without_a_change_is_a_trouble(workspace: Workspace) -> None:
    """Until a person confirms it, or it is reopened."""
    context = plain(workspace)
    call(workspace, context, "file.write", "tool-error")
    session = context.sessions.open()
    finish(session.task, str(workspace.root), note="all done", session=session)
    (trouble,) = open_troubles(session.task.refresh())
    assert trouble.what == "the agent called the task finished, and no call changed anything"
    finish(session.task, str(workspace.root), by=PERSON)
    ledger = session.task.refresh()
    assert (open_troubles(ledger), ledger.finish_note) == ([], "all done")


def test_a_call_that_only_reads_or_changes_nothing_makes_none(workspace: Workspace) -> None:
    """A tool that says it reads is believed, and ordinary calls cost nothing."""
    context = plain(workspace)
    call(workspace, context, "delete.preview", effectful=False)
    call(workspace, context, "shell.exec", given={"command": "ls"})
    assert made(workspace, context) == []


def test_a_destructive_call_at_a_protected_place_makes_none(workspace: Workspace) -> None:
    """The call is refused before anything is saved for it, and it spends nothing."""
    context = plain(workspace)
    call(workspace, context, "deploy.run", protected=".aex/policy.aex")
    assert made(workspace, context) == []
    [denied] = workspace.facts(context.task.current(), kinds.ToolDenied)
    assert (denied.reason, denied.rule, denied.tool) == ("protected", ".aex/policy.aex", "deploy.run")


@pytest.mark.parametrize("outcome", ["error", "tool-error", "no-answer"])
def test_a_failed_destructive_step_brings_back_the_page_before(workspace: Workspace, outcome: str) -> None:
    """What was said since no longer exists; what failed is, and it comes first."""
    from adjourn.checkpoints.page import AgentReport
    from adjourn.checkpoints.page_files import find_active
    from adjourn.checkpoints.save import CheckpointRequest, save_checkpoint  # beside their only use

    context = plain(workspace)
    call(workspace, context, "read")
    session = context.sessions.open()
    root = str(workspace.root)
    save_checkpoint(
        session.task, root, CheckpointRequest("a", said=AgentReport(resumption_point="deploy")), session=session
    )
    session, (admitted,) = context.sessions.admit([ToolRequest(tool="deploy.run", digest="1" * 64)])
    workspace.clock.move(seconds=60)
    save_checkpoint(
        session.task, root, CheckpointRequest("b", said=AgentReport(resumption_point="celebrate")), session=session
    )
    workspace.clock.move(seconds=60)
    facts = [kinds.ToolSettled(call=admitted.call, outcome=outcome)]  # type: ignore[arg-type]
    session.settle(facts)
    session.checkpoint_after(facts)
    found = find_active(root)
    assert found is not None
    assert found.machine["trigger"] == "failed deploy.run: deploy"
    assert found.page.current_state[0].startswith("Failed: deploy.run: deploy: ")
    assert found.page.resumption_point.endswith("Then: deploy")
    assert (workspace.root / "tmp" / "checkpoint-pre-deploy.md").exists()


def test_a_page_that_cannot_be_written_keeps_no_call(workspace: Workspace) -> None:
    """The checkpoint is in the store; what is wrong is reported."""
    notes: list[str] = []
    context = plain(workspace, on_event=lambda event, text: notes.append(f"{event}: {text}"))
    (workspace.root / "tmp").write_text("")
    call(workspace, context, "deploy.run")
    assert [trigger for _, trigger in made(workspace, context)] == [
        "before deploy.run: deploy",
        "after deploy.run: deploy",
    ]
    assert "has no page" in notes[0]


def test_settings_that_cannot_be_read_are_told_and_the_usual_rules_count(workspace: Workspace) -> None:
    """A broken settings file is reported, and the default rules stay on."""
    (workspace.root / ".aex" / "discipline.json").write_text("{")
    notes: list[str] = []
    context = plain(workspace, on_event=lambda _event, text: notes.append(text))
    call(workspace, context, "deploy.run")
    assert "the default rules apply" in notes[0]
    assert len(made(workspace, context)) == 2


def test_minutes_that_are_spent_are_checkpointed(workspace: Workspace) -> None:
    """Other budgets than calls have no usual shares, but their end."""
    text = 'policy work v1\ngoal "do it"\nallow *\nbudget minutes=1\n'
    (workspace.root / ".aex" / "policy.aex").write_text(text)
    context = workspace.context()
    for _ in range(3):
        workspace.clock.move(seconds=40)
        call(workspace, context, "read")
    assert [trigger for _, trigger in made(workspace, context)] == ["at 100% of minutes=1"]
