"""The keys and the lines of the interactive inbox, without a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.cli.inbox_keys import InboxKeys, Key, keys_of
from adjourn.cli.inbox_lines import draw, folded
from adjourn.cli.terminal import cells
from adjourn.handover.answering import ItemReply, read_arguments
from adjourn.handover.held import HeldAnswer
from adjourn.handover.inbox import WaitingItem
from support.cases import for_each

NOW = 1_764_000_000_000
SINCE = "2025-11-24T16:00:00.000Z"
DUE = "2025-11-24T16:00:08.000Z"


def item(name: str = "k1", kind: str = "approval", **members: object) -> WaitingItem:
    given = {"task": "t1", "since": SINCE, "title": f"deploy {name}", "commands": ("adjourn approve k1",), **members}
    return WaitingItem(kind=kind, id=name, **given)  # type: ignore[arg-type]


def keys_with(*items: WaitingItem) -> InboxKeys:
    state = InboxKeys()
    state.show(items)
    return state


def type_in(state: InboxKeys, sent: str) -> list[ItemReply]:
    """Press the keys that a terminal sends; returns the answers that they make."""
    return [reply for key in keys_of(sent) if (reply := state.press(key))]


def shown(state: InboxKeys, columns: int = 80, rows: int = 24) -> str:
    lines = draw(state, 0, NOW, columns, rows)
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def test_keys_are_named() -> None:
    """Arrow keys in both forms, a lone Escape, control keys and characters have names; an unknown sequence is no key."""
    sent = "\x1b[A\x1bOB\x1b[5~\x1b[99;5Xä\r\x7f\x15\x1b"
    assert [key.text or key.name for key in keys_of(sent)] == [
        "up", "down", "page-up", "ä", "enter", "backspace", "erase", "escape",
    ]  # fmt: skip


def test_the_last_approval_is_revoked_by_two_keys() -> None:
    """`u` begins, Enter revokes; without an approval nothing begins."""
    state = keys_with(item())
    assert type_in(state, "u\r") == []
    assert "approved nothing" in shown(state)
    state.granted = item("k7")
    assert type_in(state, "u\x1b") == []
    assert type_in(state, "u") == []
    assert "Revoke the approval" in shown(state)
    assert type_in(state, "\r") == [ItemReply("approval", "k7", "revoke", "t1")]


def test_an_item_is_snoozed_by_two_keys() -> None:
    """`z` begins, Enter snoozes; not what expires soon."""
    state = keys_with(item("q", "question", record="r"))
    assert type_in(state, "z\r") == [ItemReply("question", "q", "snooze", "t1", "r")]
    state = keys_with(item(urgency="soon"))
    assert type_in(state, "z\r") == []
    assert "expires soon" in shown(state)


def test_the_last_answer_is_undone_or_recorded_by_two_keys() -> None:
    """`u` undoes the last answer that can be undone, before it revokes one; `n` records it; both need Enter, and say which."""
    state = keys_with(item("k2"))
    assert type_in(state, "n\r") == []
    assert "every answer is recorded" in shown(state)
    state.granted = item("k7")
    state.held = [(item(name), HeldAnswer(name, f"Approve {name}", frozenset(), DUE)) for name in ("k3", "k4")]
    assert "Approve k4 (and 1 more): 8 s left, then it is recorded" in shown(state)
    assert type_in(state, "u\x1b") == []
    assert type_in(state, "u") == []
    assert "Undo the answer to: deploy k4" in shown(state)
    assert type_in(state, "\r") == [ItemReply("approval", "k4", "undo", "t1")]
    assert type_in(state, "n\r") == [ItemReply("approval", "k4", "record", "t1")]


def test_equal_items_take_one_answer_if_the_person_says_so() -> None:
    """Tab adds the equal items to an answer that was begun, and takes them out again; only a begun one."""
    state = keys_with(item("k1", title="deploy"), item("k2", title="deploy"), item("k3", title="pay"))
    assert type_in(state, "\td") == []
    assert "[ ] Tab: also for the equal one" in shown(state)
    assert type_in(state, "\r") == [ItemReply("approval", "k1", "deny", "t1")]
    assert not state.also
    type_in(state, "d\t")
    assert "[x] Tab" in shown(state)
    type_in(state, "\r")
    assert [str(other.id) for other in state.also] == ["k2"]
    type_in(state, "d\t\t\r")
    assert state.also == ()
    type_in(state, "jj")
    type_in(state, "d\t\r")
    assert state.also == ()


def test_only_items_with_a_text_are_shown() -> None:
    """`/` narrows the list while it is typed, by kind, title and task; Enter keeps it, Escape shows all; no answer is begun by it."""
    state = keys_with(item("k1"), item("q1", "question", title="Which day?"), item("k2", goal="Which?"))
    type_in(state, "/whICH\r")
    assert [each.id for each in state.items] == ["q1", "k2"]
    assert "2 of 3 with 'whICH'" in shown(state)
    state.show([*state.all, item("k9", title="which")])
    assert len(state.items) == 3
    assert type_in(state, "/ nothing") == []
    assert "No item has this text" in shown(state)
    type_in(state, "\x1b")
    assert (len(state.items), state.filter) == (4, "")
    type_in(state, "/question\r")
    assert [each.id for each in state.items] == ["q1"]
    type_in(state, "\x1b")
    assert len(state.items) == 4


def test_a_pasted_text_is_one_key() -> None:
    """A paste is text, whatever keys it looks like, and answers nothing while an item is selected."""
    pasted = "\x1b[200~d\rno\nway\x1b[201~"
    assert list(keys_of(pasted)) == [Key("paste", "d\rno\nway")]
    state = keys_with(item())
    assert type_in(state, pasted) == []
    assert state.draft is None
    assert type_in(state, f"d{pasted}\r")[0].text == "d\rno way"


@for_each(
    ("one", "sent", "action", "text", "option"),
    [
        (item(), "a\r", "approve", "", None),
        (item(), "dnot on a Fridai\x7fy\r", "deny", "not on a Friday", None),
        (item(), "dno way\x17\x15never\r", "deny", "never", None),
        (item("q1", "question"), "atonight\r", "answer", "tonight", None),
        (item("q1", "question", options=("yes", "no")), "2a\r", "answer", "", 1),
        (item("q1", "question", options=("yes", "no")), "dmoot\r", "skip", "moot", None),
        (item("d1", "decision", options=("a", "b")), "1a\r", "accept", "", 0),
        (item("d1", "decision", options=("a", "b")), "dboth\r", "override", "both", None),
        (item("c9", "in-doubt"), "aI looked\r", "done", "I looked", None),
        (item("c9", "in-doubt"), "d\r", "not-done", "", None),
        (item("b1", "blocker"), "agot it\r", "resolve", "got it", None),
        (item("go", "resume-point"), "d\r", "deny", "", None),
    ],
)
def test_an_answer_is_named_and_entered(
    one: WaitingItem, sent: str, action: str, text: str, option: int | None
) -> None:
    """Each kind of item has its two answers on `a` and `d`; Enter gives them with text and option."""
    (reply,) = type_in(keys_with(one), sent)
    assert (reply.id, reply.action, reply.text, reply.option) == (one.id, action, text, option)


@pytest.mark.parametrize(
    ("one", "sent"),
    [
        (item(), "a"),
        (item(), "\r\r"),
        (item(), "a\x1b\r"),
        (item("q1", "question"), "a  \r"),
        (item("q1", "question", options=("yes", "no")), "a\r"),
        (item("q1", "question", options=("yes", "no")), "7a\r"),
        (item("b1", "blocker"), "d\r"),
    ],
)
def test_half_an_answer_records_nothing(one: WaitingItem, sent: str) -> None:
    """One key, Enter alone, Escape, a missing text or a missing choice answer nothing."""
    assert type_in(keys_with(one), sent) == []


def test_the_selection_stays_with_its_item() -> None:
    """When items come and go, the selected one stays selected, and a draft stays about its item."""
    one, two, three = item("k1"), item("k2"), item("k3")
    state = keys_with(one, two, three)
    type_in(state, "jj")
    state.show([two, three])
    assert state.selected == three
    type_in(state, "d")
    state.show([two])
    (reply,) = type_in(state, "\r")
    assert reply.id == "k3"
    assert state.selected == two
    state.show([])
    assert type_in(state, "adjk\r") == []
    assert "nothing waits" in shown(state)


def test_an_item_is_shown_in_full() -> None:
    """Arguments by name and line by line, options, rule and command; nothing that a terminal would obey."""
    hostile = '{"path": "a\\u001b[2J", "text": "one\\ntwo", "key": "\\u202eevil"}'
    state = keys_with(item(cause="confirm deploy", options=("yes", "n\x1bo")))
    state.arguments = read_arguments(hostile, lambda _: None)
    screen = shown(state)
    for text in ("text:", "one", "two", "confirm deploy", "○ 1. yes", "adjourn approve k1", "a approve once"):
        assert text in screen
    assert all(char.isprintable() or char == "\n" for char in screen)


def test_an_edit_is_shown_as_a_diff() -> None:
    """A call that writes a file shows its lines as they change; one whose arguments are cut says so."""
    state = keys_with(item())
    state.arguments = read_arguments('{"path": "a.py", "content": "one\\ntwo\\n"}', lambda _: "one\nold\n")
    screen = shown(state)
    assert "path: a.py" in screen
    for line in ("      one", "    - old", "    + two"):
        assert line in screen.split("\n")
    state.arguments = read_arguments('{"path": "a', lambda _: None)
    assert "the record has only the beginning" in shown(state)


@given(
    st.lists(st.text(max_size=300), min_size=1, max_size=30),
    st.integers(40, 120),
    st.integers(8, 50),
    st.text("jkJ ad?1\r\x1bx", max_size=12),
)
def test_no_size_is_overrun(texts: list[str], columns: int, rows: int, sent: str) -> None:
    """The screen has exactly the lines of the terminal, and none is wider, whatever is in the items and pressed."""
    state = keys_with(*(item(str(n), title=text, context=text, options=(text,)) for n, text in enumerate(texts)))
    type_in(state, sent)
    state.arguments = read_arguments(json.dumps({"path": texts[0], "old": texts[0], "new": texts[-1]}), lambda _: None)
    lines = draw(state, 3, NOW, columns, rows)
    assert len(lines) == rows
    assert max(cells("".join(text for text, _ in line)) for line in lines) <= columns


@given(st.text(st.characters(categories=["L", "Zs", "So"]), max_size=200), st.integers(4, 40))
def test_folding_loses_only_blanks(text: str, room: int) -> None:
    """Folded lines fit, and have every character but blanks."""
    lines = folded(text, room)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(cells(line) <= room for line in lines)
