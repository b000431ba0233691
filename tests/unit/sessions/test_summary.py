"""A summary by a model: what is sent, what is kept of its answer, and that the page stands without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjourn.cli.app import main
from adjourn.sessions import catalog, summary
from support.transcripts import KEY, ClaudeTranscript, bakery

ANSWER = """\
The tests failed with exit code 1 [7].
The agent rounds down, because the oven overshoots [5].
The flour was ordered from Berlin in 40 sacks [2].
The oven is complete and deployed to https://example.com/oven [8].
Everything works.
All of it is done [999].
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return tmp_path


def turns(home: Path) -> list[summary.Turn]:
    bakery(ClaudeTranscript()).save(home)
    file = catalog.named(ClaudeTranscript.default_id)
    return summary.turns_of(catalog.reader_of(file).read(file))


def test_no_secret_is_sent(home: Path) -> None:
    """What is sent holds neither a key nor what was called a password once."""
    sent = summary.prompt_of(turns(home))
    assert "rename heat to preheat" in sent
    assert KEY not in sent
    assert "rye-and-salt" not in sent


def test_only_what_its_turns_hold_is_kept(home: Path) -> None:
    """A sentence without a citation, with one of no turn, or with a number, a name or words that no cited turn has is dropped."""
    made = turns(home)
    place = {turn.text[:20]: number for number, turn in enumerate(made, 1)}
    test = next(number for text, number in place.items() if "test-oven" in text)
    decided = next(number for text, number in place.items() if text.startswith("Decision"))
    answer = ANSWER.replace("[7]", f"[{test}]").replace("[5]", f"[{decided}]")
    answer = answer.replace("The tests failed with exit", "The call test-oven.sh failed with exit")
    cited, dropped = summary.checked(answer, made)
    assert [sentence.text for sentence in cited] == [
        "The call test-oven.sh failed with exit code 1",
        "The agent rounds down, because the oven overshoots",
    ]
    assert dropped == 4


def test_the_page_stands_without_the_model(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cost is said first; an answer of which nothing holds, or a model that fails, leaves the page as it is, within its bytes."""
    (home / "answers.py").write_text(
        f"def lies(system, prompt):\n    return {ANSWER!r}\n\ndef fails(system, prompt):\n    raise ValueError\n"
    )
    monkeypatch.chdir(home)
    monkeypatch.syspath_prepend(str(home))
    transcript = bakery(ClaudeTranscript())
    transcript.save(home)
    assert main(["continue", transcript.id]) == 0
    page = capsys.readouterr().out
    for function in ("lies", "fails"):
        assert main(["continue", transcript.id, "--summarise", "--model-handler", f"answers:{function}"]) == 0
        shown = capsys.readouterr()
        assert "tokens of this session are sent to the model" in " ".join(shown.err.split())
        assert page.splitlines()[0] in shown.out
        assert "Berlin" not in shown.out
        assert "example.com" not in shown.out
        assert len(shown.out.encode()) <= 8192 + 1
    assert "no summary" in shown.err
    assert shown.out == page
