"""Which requests ask for a contract, recognized by whole words, the riskiest first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import classify
from support.cases import for_each


@for_each(
    ("request_", "mode"),
    [
        ("explain how the parser works", "exploratory"),
        ("What is in this folder?", "exploratory"),
        ("fix the failing test", "contract_recommended"),
        ("Explain, then FIX it.", "contract_recommended"),
        ("show me how to deploy", "contract_required"),
        ("fix the email", "contract_required"),
        ("Ready? Deploy!", "contract_required"),
        ("redeployment of fixtures", "contract_recommended"),
        ("something else", "contract_recommended"),
        ("", "contract_recommended"),
    ],
)
def test_the_riskiest_word_decides(request_: str, mode: str) -> None:
    """Risky before editing before reading; parts of words do not count, punctuation around them does not matter."""
    assert classify(request_).mode == mode


@given(st.text())
def test_any_text_gets_a_mode_and_a_reason(request_: str) -> None:
    """The classifier gives a mode and a reason for any text."""
    told = classify(request_)
    assert told.mode in {"contract_required", "contract_recommended", "exploratory"}
    assert told.reason


def test_the_reason_names_the_word() -> None:
    """The reason names the word that decided, so that a person sees why."""
    assert '"deploy"' in classify("please deploy").reason
