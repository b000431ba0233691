"""Of a page that one session hands to the next, only what the person asked for is the person's in the next transcript."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjourn.sessions import catalog
from adjourn.sessions.texts import persons_words
from support import mutating
from support.transcripts import ASKED, WRITERS, ClaudeTranscript, bakery

PAGE = mutating.text_of(mutating.translated(bakery(ClaudeTranscript())))


def test_a_page_holds_the_prompts_that_it_quotes_and_what_a_person_wrote_around_it() -> None:
    """In their order, without the page's own sentences."""
    first, second = persons_words(PAGE)
    assert first == ASKED
    assert second.startswith("Then rename heat to preheat.")
    assert persons_words(f"Go on with this.\n\n{PAGE}\nBut leave the oven cold.\n\nReally.") == [
        "Go on with this.",
        first,
        second,
        "But leave the oven cold.\n\nReally.",
    ]


@pytest.mark.parametrize(
    "prompt",
    [
        "Bake bread",
        "# Continue a session of mine\n\nAs before.",
        "It said: # Continue a session of Codex\n\nAnother agent worked on this before you.",
        PAGE.partition("## Mission")[0],
    ],
)
def test_any_other_prompt_is_the_persons_whole(prompt: str) -> None:
    """So is a page that quotes nobody."""
    assert persons_words(prompt) == [prompt]


@pytest.mark.parametrize("writer", WRITERS)
def test_the_mission_outlives_two_clients(writer: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that began with a page tells the person's words on its own page, and in the list."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    transcript = writer()
    transcript.ask(PAGE)
    transcript.run("pytest -q", 1, "1 failed")
    transcript.save(tmp_path)
    file = catalog.named(transcript.id)
    assert file.title == ASKED
    story = catalog.reader_of(file).read(file)
    assert [prompt.text[:20] for prompt in story.prompts] == [ASKED[:20], "Then rename heat to "]
    assert story.prompts_made == 2
    third = mutating.text_of(story)
    assert persons_words(third)[0] == ASKED
    assert third.count("Another agent worked on this before you") == 1
