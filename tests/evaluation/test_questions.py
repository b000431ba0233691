"""The questions to a model: asked over HTTP of a provider, graded by the same needles. The provider here is on loopback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adjourn.testing import ModelServer, ScriptedReply
from evaluation import questions
from evaluation.catalogue import PLOTS, Played
from evaluation.judging import LARGE, SMALL, Reading
from evaluation.questions import QUESTIONS, Answered
from evaluation.reader import USEFUL, VITAL, Needle, Score, Trap, whole
from evaluation.stage import Stage

GOAL = Needle("goal", VITAL, (whole("4711"),), "", ("Goal", "Close ticket 4711"))
STEP = Needle("next step", VITAL, (whole("raven-queue"),), "next", ("Next step", "Drain raven-queue"))
FACTS = [Needle("fact", USEFUL, (whole(name),), "", ("Facts", name)) for name in ("birch-cache", "kelp-index")]
OLD = Trap("old plan told as the next step", (whole("sable-broker"),), "next", "", ("Next step", "Fill sable-broker"))
HANDOVER = "## Next step\n| - Drain raven-queue\n"
RIGHT = ["Close ticket 4711", "Drain raven-queue", *["none"] * 5, "birch-cache and kelp-index", "none", "none"]


@pytest.fixture
def played(tmp_path: Path) -> Played:
    stage = Stage(tmp_path, {}, [])
    return Played(PLOTS[0], stage, stage, "a", [GOAL, STEP, *FACTS], [OLD])


def _asked(played: Played, reply: str, monkeypatch: pytest.MonkeyPatch, provider: str) -> tuple[Answered, str]:
    """The outcome of a model's reply, and what the model was asked."""
    given = Reading(played.plot, 1, questions.WHAT, LARGE, Score(1, 1, 1, True, [], [], 9), HANDOVER)
    with ModelServer(ScriptedReply(reply)) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        other = given._replace(what="session hook")
        (answered,) = questions.ask(provider, played, [given, other])
        (asked,) = server.asked
    return answered, asked.prompt if isinstance(asked.prompt, str) else json.dumps(asked.prompt)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_right_answers_are_right(played: Played, monkeypatch: pytest.MonkeyPatch, provider: str) -> None:
    """The model gets the hand-over and ten questions, once for each text of one rendering; right answers count 1 each."""
    answered, prompt = _asked(played, f"Here: {json.dumps(RIGHT)}", monkeypatch, provider)
    assert (answered.right, answered.wrong, answered.problem) == ([1.0] * 10, [], "")
    assert HANDOVER in prompt
    assert all(question.text in prompt for question in QUESTIONS)


def test_wrong_answers_are_wrong(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer counts by the part of it that is right; an old plan is a trap; something where nothing is, is wrong."""
    said = ["I do not know", "Fill sable-broker", "mail.send", *["none"] * 4, "birch-cache", "none", "none"]
    answered, _ = _asked(played, json.dumps(said), monkeypatch, "anthropic")
    assert answered.right == [0, 0, 0, 1, 1, 1, 1, 0.5, 1, 1]
    assert answered.wrong == ["old plan told as the next step"]


@pytest.mark.parametrize("reply", ["", "no", "[]", '["one"]', '{"a": 1}', "[1, 2"])
def test_an_answer_of_another_form_counts_nothing(played: Played, monkeypatch: pytest.MonkeyPatch, reply: str) -> None:
    """What is no array of ten texts is no answer, and the table says so."""
    answered, _ = _asked(played, reply, monkeypatch, "anthropic")
    assert answered.right == [0.0] * 10
    assert answered.problem
    (row,) = questions.table([answered], "anthropic").rows
    assert row == [LARGE, 1, 0, 0, 0, 1]


def test_the_table_has_a_row_for_each_size() -> None:
    """Means and least parts of right answers, by the size of the hand-over."""
    answers = [
        Answered("a", LARGE, [1.0] * 10, []),
        Answered("b", LARGE, [0.5] * 10, ["x"]),
        Answered("a", SMALL, [0.0] * 10, []),
    ]
    assert questions.table(answers, "m").rows == [[LARGE, 2, 0.75, 0.5, 1, 0], [SMALL, 1, 0, 0, 0, 0]]


def test_a_model_is_asked_where_a_key_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anthropic's key comes first, then OpenAI's; without one, no model is asked."""
    for key in questions.PROVIDERS:
        monkeypatch.delenv(key, raising=False)
    assert not questions.model_name()
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert questions.model_name() == "openai"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert questions.model_name() == "anthropic"
