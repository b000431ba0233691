"""What each session received, made again from the history, and compared with what the one before it received."""

from __future__ import annotations

from adjourn.handover.compared import ComparedItem, ComparedSection, compare, handover_at, prose, session_starts
from adjourn.handover.rendering import Handover, Section, SectionItem
from adjourn.handover.resumption import Preview
from adjourn.host import keys
from adjourn.knowledge.records.agent_notes import AgentNote, add
from support.workspace import Workspace


def handed(**sections: list[str]) -> Handover:
    return Handover(
        name="n",
        task="t",
        made="",
        state="active",
        sections=tuple(
            Section(name, name.title(), [[SectionItem(text) for text in texts]], 10) for name, texts in sections.items()
        ),
    )


def test_items_are_new_gone_changed_or_the_same() -> None:
    """By section: what is alike in most of its words has changed, the rest is new or gone."""
    before = handed(next=["[ ] write the tests of the parser"], facts=["the port is 8080", "zebra"])
    after = handed(next=["[x] write the tests of the parser"], facts=["the port is 8081", "quince"], rules=["no more"])
    assert compare(before, after) == [
        ComparedSection(
            "Next",
            [ComparedItem("changed", "Done: write the tests of the parser", "To do: write the tests of the parser")],
        ),
        ComparedSection(
            "Facts",
            [
                ComparedItem("changed", "the port is 8081", "the port is 8080"),
                ComparedItem("new", "quince"),
                ComparedItem("gone", "", "zebra"),
            ],
        ),
        ComparedSection("Rules", [ComparedItem("new", "no more")]),
    ]
    assert compare(after, after)[0].items[0].kind == "same"


def test_a_section_that_is_gone_is_shown_as_gone() -> None:
    """Nothing that an earlier session received disappears from the comparison."""
    assert compare(handed(facts=["a"]), handed()) == [ComparedSection("Facts", [ComparedItem("gone", "", "a")])]


def test_an_item_is_prose() -> None:
    """Without the marks of Markdown."""
    assert prose("[ ] run `make test`") == "To do: run make test"
    assert prose("[x] *shipped*") == "Done: *shipped*"


def test_what_a_session_was_told_is_made_again(memory_workspace: Workspace) -> None:
    """As of the event with which it began: later calls, notes and checkpoints are not in it."""
    work = memory_workspace
    work.use()
    first = work.context("first")
    add(first.sessions.open(), AgentNote(facts=("known early",)))
    work.work(first, "file.read")
    name = work.save(first, "early").event.task
    work.leave(first)
    work.clock.move(seconds=60)
    second = work.context("second")
    work.resume(second, "early")
    work.clock.move(seconds=60)
    work.work(second, "file.write", "file.write")
    add(second.sessions.open(), AgentNote(facts=("known late",)))
    work.save(second, "late")
    work.leave(second)
    work.clock.move(seconds=60)
    third = work.context("third")
    work.resume(third, "late")
    task = work.task(name)
    starts = session_starts(work.store, task.ledger)
    assert [(start.number, start.checkpoint) for start in starts] == [(2, "early"), (3, "late")]
    reader = Preview(lambda: work.store, str(work.root), work.clock, keys.secret())
    earlier, later = (handover_at(reader, name, start) for start in starts)
    assert (earlier.calls_used, later.calls_used) == (1, 3)
    items = [item for section in compare(earlier, later) for item in section.items]
    assert any(item.kind == "new" and "known late" in item.text for item in items)
    assert any(item.kind == "same" and "known early" in item.text for item in items)
