"""Replies are read line by line, never believed more than an inference, and never fail."""

from __future__ import annotations

import copy
import time

from hypothesis import given
from hypothesis import strategies as st

from adjourn.knowledge.brief.compose import REPLY_TAGS, format_state_for_prompt
from adjourn.knowledge.cognition.invariants import check_working_state
from adjourn.knowledge.model.cognition import (
    MAX_STATEMENT,
    MAX_STATEMENTS,
    CognitiveCheckpoint,
    TaggedStatement,
    WorkingState,
    apply_reply,
    parse_reply,
)
from adjourn.knowledge.model.documents import Tree, accept, same
from support.cases import for_each
from support.documents import NOW, goal, state
from support.strategies import cognitive_checkpoints

TAGS = ("FACT", "ASSUMPTION", "QUESTION", "INTENT")


@for_each("tag", TAGS)
@for_each(
    "line",
    [
        "{0}: it is so", "- {0}: it is so", "* {0}: it is so", "+ {0}: it is so", "• {0}: it is so", "1. {0}: it is so",
        "12) {0}: it is so", "**{0}:** it is so", "**{0}**: it is so", "- **{0}**: it is so", "__{0}__: it is so",
        "**{0}: it is so**", "   {0}:it is so  ", "{0} : it is so", "\t{0}: x\n{0}: it is so", "{0}: it is so\r\n",
        "{0}: it\x00 is\u200b so",
    ],
)  # fmt: skip
def test_a_statement_is_read(tag: str, line: str) -> None:
    """With or without a list mark and emphasis, and without what is not seen."""
    assert parse_reply("Well.\n" + line.format(tag))[-1] == TaggedStatement(tag, "it is so")  # type: ignore[arg-type]


@for_each(
    "text",
    [
        "fact: small", "FACT it is so", "FACT:", "FACT:   ", "- FACT:\nnext line", "the FACT: is inside", "> FACT: quoted",
        "| - FACT: of a brief", "FACTS: many", "XFACT: x", "```\nFACT: code\n```", "~~~ py\nFACT: code\n~~~",
        "````\n```\nFACT: code\n````", "```\nFACT: never closed", "# FACT: heading", "**FACT:** **",
        "```\nFACT: code\n``` no end\nFACT: code", "                    FACT: deep",
    ],
)  # fmt: skip
def test_what_is_no_statement_is_not_read(text: str) -> None:
    """Code, quotations, other words, and tags without a text."""
    assert parse_reply(text) == []


def test_code_ends() -> None:
    """After a fence is closed lines count again; a code span of three marks is no fence."""
    assert parse_reply("```\nFACT: no\n```\nFACT: yes") == [TaggedStatement("FACT", "yes")]
    assert parse_reply("```x``` is code\nFACT: yes") == [TaggedStatement("FACT", "yes")]


@given(
    st.text()
    | st.lists(
        st.sampled_from(["FACT", ":", "**", "- ", "```", "~~~", "\n", " ", "x", "1. ", "__", "\r", "INTENT"])
    ).map("".join)
)
def test_any_text_is_read_without_an_error(text: str) -> None:
    """Any reply is read as statements with one line each, and the state stays valid."""
    statements = parse_reply(text)
    for tag, said in statements:
        assert tag in TAGS
        assert said.strip() == said != ""
        assert said.splitlines() == [said]
    before = state()
    kept = copy.deepcopy(before)
    after = apply_reply(before, statements, NOW)
    assert before == kept
    accept(after, WorkingState)
    assert not [found for found in check_working_state(after) if found.severity == "error"]
    assert apply_reply(after, statements, NOW) is after


@given(
    cognitive_checkpoints,
    st.lists(
        st.tuples(st.sampled_from(TAGS), st.sampled_from(["a", "A.", "a  b", "A b", "ﬁ", "fi", "c", "line line"]))
    ),
)
def test_what_is_known_is_not_added_again(checkpoint: Tree, said: list[tuple[str, str]]) -> None:
    """Any working state takes any statements: it stays of its type, and a second time nothing changes."""
    working = {name: checkpoint[name] for name in ("nodes", "epistemicState", "intentGraph")}
    statements = [TaggedStatement(tag, text) for tag, text in said]  # type: ignore[arg-type]
    once = apply_reply(working, statements, NOW)
    accept(once, WorkingState)
    assert same(apply_reply(once, statements, NOW + 1), once)
    facts = once["epistemicState"]["facts"]
    new = [fact["content"] for fact in facts[len(checkpoint["epistemicState"]["facts"]) :]]
    assert len({" ".join(text.casefold().replace("ﬁ", "fi").split()).rstrip(".") for text in new}) == len(new)


def test_each_kind_has_its_place() -> None:
    """A fact is an inference of 0.7, a question of medium priority, an intent an active goal under the root."""
    reply = "FACT: the port is 8080\nASSUMPTION: it is free\nQUESTION: whose is it?\nINTENT: open it"
    after = apply_reply(state(), parse_reply(reply), NOW)
    known, goals = after["epistemicState"], after["intentGraph"]["goals"]
    fact = known["facts"][-1]
    assert (fact["content"], fact["source"], fact["confidence"]) == ("the port is 8080", "inference", 0.7)
    assert known["assumptions"][-1]["content"] == "it is free"
    assert "validatedAt" not in known["assumptions"][-1]
    question = known["openQuestions"][-1]
    assert (question["question"], question["priority"]) == ("whose is it?", "medium")
    assert (goals[-1]["description"], goals[-1]["status"], goals[-1]["parentGoalId"]) == ("open it", "active", "g1")
    assert goals[0]["subGoalIds"] == ["g2", goals[-1]["id"]]


def test_a_fact_validates_an_assumption_of_the_same_words() -> None:
    """Once: a later claim does not move the time. As an assumption it is not raised again."""
    before = state()
    after = apply_reply(before, parse_reply("ASSUMPTION: The disk is  full.\nFACT: the disk is full"), NOW)
    assert after["epistemicState"]["assumptions"][-1]["validatedAt"] == NOW
    again = apply_reply(after, parse_reply("FACT: the disk is full\nASSUMPTION: the disk is full"), NOW + 5)
    assert again is after


def test_without_a_root_goal_an_intent_stands_alone() -> None:
    """A state whose root is missing still takes an intent."""
    before = {**state(), "intentGraph": {"goals": [goal("g9")], "rootIntentId": "gone"}}
    (made,) = apply_reply(before, parse_reply("INTENT: go"), NOW)["intentGraph"]["goals"][1:]
    assert "parentGoalId" not in made


def test_a_reply_is_bounded() -> None:
    """No more than so many statements of so many characters are taken in, and reading takes time in proportion."""
    many = parse_reply("\n".join(f"FACT: {number} " + "x" * 5_000 for number in range(1_000)))
    assert len(many) == MAX_STATEMENTS
    assert max(len(said.text) for said in many) == MAX_STATEMENT
    started = time.process_time()
    for hard in (
        "*" * 200_000,
        "- " * 100_000,
        "FACT" * 50_000,
        " " * 200_000 + "FACT: x",
        "`" * 200_000,
        "FACT:" + " " * 200_000,
    ):
        parse_reply(hard)
    assert time.process_time() - started < 2


def test_an_echo_of_the_brief_states_nothing() -> None:
    """A model that repeats what it received adds nothing: neither from the record, nor from how the tags are explained."""
    told = format_state_for_prompt(_checkpoint(), NOW)
    assert REPLY_TAGS in told
    assert "FACT: y" in told
    assert parse_reply(told) == []


def _checkpoint() -> Tree:
    tree = state()
    tree["epistemicState"]["facts"].append(
        {"id": "f2", "content": "x\nFACT: y", "source": "s\nFACT: z", "confidence": 1}
    )
    metrics = {"totalNodes": 2, "completedNodes": 0, "tokenEstimate": 1, "elapsedMs": 1}
    return accept(
        {**tree, "id": "c", "timestamp": NOW, "label": "l", "branchId": "main", "metrics": metrics}, CognitiveCheckpoint
    )
