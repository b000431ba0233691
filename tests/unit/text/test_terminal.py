"""What is shown holds nothing that a terminal obeys, that reorders a line, or that is there without being seen."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.hooks import claude_code, tell
from adjourn.text.quoting import clean
from adjourn.text.redact import is_seen, visible, visible_json, visible_line, visible_lines
from support.cases import for_each

UNSEEN = [
    "\x00", "\x07", "\x1b", "\x7f", "\x80", "\x85", "\x9b", "\x9d", "\u202a", "\u202e", "\u2066", "\u2069", "\u200e", "\u200f",
    "\u061c", "\u200b", "\u2060", "\ufeff", "\u00ad", "\u034f", "\u115f", "\u1160", "\u17b4", "\u180e", "\u2028", "\u2029",
    "\u2800", "\u3164", "\uffa0", "\ufff9", "\ue000", "\ud800", "\U000e0041", "\U000e0100", "\U000f0000",
]  # fmt: skip
anything = st.text(st.characters(exclude_categories=[]) | st.sampled_from(UNSEEN), max_size=40)


@for_each("character", UNSEEN, ids=[f"{ord(character):04x}" for character in UNSEEN])
def test_what_is_not_seen_is_shown_as_an_escape(character: str) -> None:
    """Controls, bidirectional and format characters, fillers and tags appear as escapes, and are dropped from what is kept."""
    text = f"a{character}b"
    for shown in (visible(text), visible_lines(text)):
        assert character not in shown
        assert f"{ord(character):04x}" in shown
    assert character not in visible_line(text)
    assert character not in clean(text)


def test_no_character_that_unicode_calls_control_or_format_is_seen() -> None:
    """Of all characters there are, those of the categories that hold no glyph are escaped."""
    for code in range(0x110000):
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
            assert not is_seen(chr(code)), hex(code)


@given(anything, anything)
def test_texts_that_differ_look_different(one: str, other: str) -> None:
    """An escape leaves nothing out: what is seen of two texts is equal only where a text spells an escape itself."""
    if "\\" not in one + other:
        assert (visible(one) == visible(other)) is (one == other)


@given(
    st.recursive(anything | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(anything, inner))
)
def test_json_says_the_same_with_escapes(value: object) -> None:
    """JSON that is made visible decodes to what it was, and holds nothing that is not seen, but its line breaks."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    shown = visible_json(text)
    assert json.loads(shown) == json.loads(text)
    assert all(is_seen(character) or character == "\n" for character in shown)


@pytest.mark.parametrize("text", ["plain", "größe", "日本語", "e\u0301", "a b", "x = {'y': 1}", "→ … “”"])
def test_what_is_seen_is_left_as_it_is(text: str) -> None:
    """Letters of any script, accents and signs are shown as they are."""
    assert visible(text) == visible_line(text) == visible_lines(text) == clean(text) == text
    assert visible_json(json.dumps(text, ensure_ascii=False)) == json.dumps(text, ensure_ascii=False)


def test_joiners_stay_where_a_script_needs_them_and_spell_nothing() -> None:
    """Kept texts keep the joiners of words and emoji; a row of them, which only hides something, is dropped."""
    for text in ("\u0645\u06cc\u200c\u062e\u0648", "❤\ufe0f\u200d🔥", "👩\u200d💻"):
        assert clean(text) == text
    assert clean("a" + "\u200c\u200d" * 20 + "b") == "ab"
    assert clean("a" + "\ufe0e\ufe0f" * 20 + "b") == "ab"


@pytest.mark.parametrize("character", ["\x9b", "\u202e", "\x1b", "\u3164"])
def test_a_hook_shows_no_such_character_to_a_person(character: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Reasons, messages and errors of a hook have escapes."""
    answer = json.loads(
        claude_code.answer(claude_code.Answer("deny", f"a{character}b", f"c{character}d"), "claude", "claude")
    )
    assert character not in answer["systemMessage"] + answer["hookSpecificOutput"]["permissionDecisionReason"]
    assert character not in json.loads(claude_code.event_answer("Stop", f"a{character}b", ""))["systemMessage"]
    secret = "gh" + "p_" + "a1" * 18
    for line in (
        claude_code.event_answer("Stop", f"use {secret}", ""),
        claude_code.event_answer("SessionStart", "", f"use {secret}"),
    ):
        assert secret.encode() not in line
    tell(f"a{character}b")
    assert character not in capfd.readouterr().err
