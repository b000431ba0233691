"""The request of a coding session: its flags, its slots, and the names of its branch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.code import branches
from adjourn.code.commands import files as skill_files
from adjourn.code.session_state import SLOTS, QueryFrame
from adjourn.code.workflow import payloads as query_frame
from adjourn.code.workflow.payloads import QuotedValue, RequestFrame
from adjourn.code.workflow.phases import FlowError
from adjourn.code.workflow.request import FLAGS, Flags, parse_flags
from adjourn.code.workflow.request import flag_table as table
from support.cases import for_each


@pytest.mark.parametrize(
    ("text", "flags", "gate"),
    [
        ("", Flags(), "auto"),
        ("--fast -g=f", Flags(fast=True), "full"),
        ("-q --no-verify", Flags(quick=True, no_verify=True), "auto"),
        ("--no-doc -ni --gate=auto", Flags(no_doc=True, no_intervention=True), "auto"),
        ("--no-doc-research --no-quality -e", Flags(no_doc=True, no_quality=True, only_explore=True), "auto"),
        ("--doc-research=a,b", Flags(), "auto"),
    ],
)
def test_flags_as_they_are_typed(text: str, flags: Flags, gate: str) -> None:
    """Long and short forms mean the same."""
    assert parse_flags(text, "auto") == (flags, gate)


@for_each(
    "text",
    [
        "--resume --fast",
        "-r -f",
        "--fast -r",
        "--resume",
        "-c",
        "--rebuild",
        "-v",
        "--nope",
        "-x",
        "-",
        "--gate=x",
        "'",
    ],
)
def test_flags_that_begin_no_session_are_refused(text: str) -> None:
    """What is not a session, or not a flag, is an error that says what to do."""
    with pytest.raises(FlowError) as refused:
        parse_flags(text, "auto")
    assert refused.value.code == "invalid_flags"
    assert ("alone" in refused.value.message) is (text in {"--resume --fast", "-r -f", "--fast -r"})


def test_r_is_resume_and_rebuild_has_no_short_form() -> None:
    """No two flags share a short form, and `-r` is --resume."""
    shorts = {flag.short: flag.name for flag in FLAGS if flag.short}
    assert len(shorts) == len([flag for flag in FLAGS if flag.short])
    assert shorts["-r"] == "--resume"
    assert next(flag.short for flag in FLAGS if flag.name == "--rebuild") == ""


def test_the_skill_lists_the_flags_of_the_server() -> None:
    """Both skills have the table that the server reads flags by."""
    files = skill_files()
    for path in (".claude/commands/code.md", ".agents/skills/code/SKILL.md"):
        assert table() in files[path]
        assert "{" + "flags}" not in files[path]
        assert "{" + "procedure}" not in files[path]
        assert files[path].startswith("---\n")


QUERY = "When the cart is empty, 合計金額の計算 must not crash"
GIVEN = [
    ("an exact quote", QuotedValue("empty cart", "the cart is empty"), "empty cart"),
    ("one within the other", QuotedValue("CRASH", "must not crash"), "CRASH"),
    ("no quote", QuotedValue("empty cart", None), None),
    ("a quote that is not there", QuotedValue("empty cart", "the Cart is empty"), None),
    ("a value of something else", QuotedValue("login page", "the cart is empty"), None),
    ("no value", QuotedValue("", "the cart is empty"), None),
    ("null", QuotedValue(None, None), None),
    ("other characters that overlap", QuotedValue("金額合計を計算", "合計金額の計算"), "金額合計を計算"),
    ("other characters that do not", QuotedValue("在庫の確認", "合計金額の計算"), None),
]


@for_each(("slot", "kept"), [row[1:] for row in GIVEN], ids=[row[0] for row in GIVEN])
def test_a_slot_stands_on_words_of_the_request(slot: QuotedValue, kept: str | None) -> None:
    """Kept, it is a fact with its quote; else it is dropped."""
    payload = RequestFrame(action_type="", target_symbols=[], scope="", constraints="", target_feature=slot)
    frame = query_frame.build_frame(QUERY, payload)
    assert frame.target_feature == kept
    assert frame.slot_source == ({"target_feature": "FACT"} if kept else {})
    assert frame.slot_quotes == ({"target_feature": slot.quote} if kept else {})


@given(st.integers(0, 4))
def test_risk_grows_with_what_is_unknown(known: int) -> None:
    """Three missing slots are high risk, two medium."""
    frame = QueryFrame()
    for slot in SLOTS[:known]:
        setattr(frame, slot, "x")
    assert frame.risk == {0: "HIGH", 1: "HIGH", 2: "MEDIUM", 3: "LOW", 4: "LOW"}[known]


names = st.text("abcxyz019_/-", min_size=1, max_size=20).filter(lambda name: name.strip("/") == name)


@given(st.from_regex(r"session_\d{8}_\d{6}(_[a-z0-9]{4})?", fullmatch=True), names)
def test_a_branch_name_says_session_and_base(session: str, base: str) -> None:
    """Both are read back from the name that the server makes."""
    parsed = branches.parse(branches.branch_name(session, base))
    assert parsed == (session, base.replace("/", "__"))


@pytest.mark.parametrize("name", ["main", "llm_task_", "feature/llm_task_x"])
def test_other_branches_are_none_of_ours(name: str) -> None:
    """Only names that begin like a task branch, and continue, are one."""
    assert branches.parse(name) is None


def test_names_without_a_base_are_older() -> None:
    """Branches made before the base was in the name are known by their session."""
    assert branches.parse("llm_task_session_20250101_101010") == ("session_20250101_101010", "")
