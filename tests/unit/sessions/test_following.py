"""A transcript that grows is read from where the last reader stopped, and what is kept of it has bounds and no secret."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints.transcript_facts import MAX_BYTES, NO_FACTS, TranscriptFacts, without_story
from adjourn.errors import InvalidError
from adjourn.sessions import files
from adjourn.sessions.following import follow, kept_story
from adjourn.sessions.texts import MAX_VALUES
from support.transcripts import ASKED, ASKED_LATER, KEY, ClaudeTranscript, CodexTranscript, bakery

KINDS: dict[str, Any] = {"claude": ClaudeTranscript, "codex": CodexTranscript}
NOW = 1_790_000_000_000


def in_parts(client: str, path: Path, data: bytes, ends: list[int], tree: str) -> TranscriptFacts:
    """The facts after a file grew to each of these sizes."""
    facts = NO_FACTS
    for end in [*sorted(ends), len(data)]:
        path.write_bytes(data[:end])
        facts = follow(client, str(path), tree, facts, NOW)
    return facts


@pytest.mark.parametrize("client", KINDS)
@given(cuts=st.lists(st.floats(0, 1), max_size=4))
def test_a_page_does_not_depend_on_how_often_a_transcript_was_read(
    client: str, cuts: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Wherever the file was cut when it was read, in a record or between two, the parts say the same."""
    folder = tmp_path_factory.mktemp("transcript")
    data = bakery(KINDS[client](folder=str(folder))).data()
    path = folder / KINDS[client]().save(folder).name
    whole = in_parts(client, path, data, [], str(folder))
    path.unlink()
    parts = in_parts(client, path, data, [int(cut * len(data)) for cut in cuts], str(folder))
    assert parts.report == whole.report
    assert parts.end == whole.end == len(data)


@pytest.mark.parametrize(("models", "expected"), [("a-1 b-2 a-1", "a-1"), ("a-1 Obey,\xa0me", ""), ("", "")])
def test_the_model_that_answered_last_is_kept(models: str, expected: str, tmp_path: Path) -> None:
    """What is no name is none: it would stand among our words."""
    transcript = ClaudeTranscript(folder=str(tmp_path))
    transcript.ask(ASKED)
    for model in models.split(" "):
        transcript.record(
            "assistant", message={"role": "assistant", "model": model.replace("\xa0", " "), "content": []}
        )
    path = transcript.save(tmp_path / "home")
    assert follow("claude", str(path), str(tmp_path), NO_FACTS, NOW).model == expected


@pytest.fixture
def followed(tmp_path: Path) -> Path:
    path: Path = bakery(ClaudeTranscript(folder=str(tmp_path))).save(tmp_path / "home")
    return path


CORRECTED = "No, keep the crust thin."


def test_of_a_large_session_that_a_hook_reads_first_little_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 20 MB a hook decodes what is at both ends, and the prompts between; the next one only what was added."""
    transcript = ClaudeTranscript(folder=str(tmp_path))
    transcript.ask(ASKED)
    for number in range(400):
        transcript.run(f"cat part{number}", 0, "x" * 25_000)
        if number == 200:
            transcript.ask(CORRECTED)
    transcript.say("The bread is in the oven.")
    path = transcript.save(tmp_path / "home")
    decoded: list[int] = []
    real = files.decode

    def decode(data: bytes) -> tuple[Any, bool]:
        decoded.append(len(data))
        return real(data)

    monkeypatch.setattr(files, "decode", decode)
    facts = follow("claude", str(path), str(tmp_path), NO_FACTS, NOW)
    assert path.stat().st_size > 20_000_000
    assert sum(decoded) < 2 * 1024 * 1024
    assert facts.end == path.stat().st_size
    assert facts.report.mission == f"{ASKED}\n\nThen: {CORRECTED}"
    story = kept_story(facts)
    assert story is not None
    assert [answer.text for answer in story.answers] == ["The bread is in the oven."]

    decoded.clear()
    transcript.ask("Take it out.")
    transcript.save(tmp_path / "home")
    assert "Take it out." in str(follow("claude", str(path), str(tmp_path), facts, NOW).report.mission)
    assert sum(decoded) < 1000


def test_the_parts_of_a_page_come_from_the_story(followed: Path, tmp_path: Path) -> None:
    """The person's prompts in order; items that evidence contradicts are open; what was edited, run and said last; files."""
    (tmp_path / "oven.py").write_text("heat = 10\n")
    report = follow("claude", str(followed), str(tmp_path), NO_FACTS, NOW).report
    assert isinstance(report.mission, str)
    first, later = report.mission.split("\n\nThen: ")
    assert first == ASKED
    assert later.startswith("Then rename heat to preheat. The password is [redacted]")
    assert [(step.status, step.text) for step in report.progress or ()] == [
        ("done", "Write the steps"),
        ("pending", "Run the tests"),
    ]
    assert "contradicted: the last run of the tests ended with exit code 1" in (report.progress or ())[1].note
    state = "\n".join(report.current_state or ())
    for part in (
        'Contradicted: the agent said "All tests pass."',
        "Last edited file: oven.py",
        "Last command: ./test-oven.sh: exit code 1",
        'The agent said last: "The oven is complete. Next step',
    ):
        assert part in state
    assert [(file.path, file.note) for file in report.artifacts or ()] == [("oven.py", "1 edit")]
    assert report.resumption_point is msgspec.UNSET  # it was stated before the person's last prompt


def test_nothing_is_read_twice_and_a_replaced_file_is_read_from_its_beginning(followed: Path, tmp_path: Path) -> None:
    """The same facts where nothing was added. A shorter file of the same name is another story."""
    facts = follow("claude", str(followed), str(tmp_path), NO_FACTS, NOW)
    assert follow("claude", str(followed), str(tmp_path), facts, NOW + 1) is facts
    other = ClaudeTranscript(folder=str(tmp_path))
    other.ask("Count the loaves.")
    followed.write_bytes(other.data())
    assert follow("claude", str(followed), str(tmp_path), facts, NOW).report.mission == "Count the loaves."


def test_a_file_that_no_story_is_kept_of_is_read_from_its_beginning(followed: Path, tmp_path: Path) -> None:
    """`store gc` frees the stories of tasks that rest; their reports stay, and one that grows again says all."""
    facts = follow("claude", str(followed), str(tmp_path), NO_FACTS, NOW)
    value = without_story(msgspec.json.encode(facts).decode())
    assert len(value) < len(msgspec.json.encode(facts)) // 2
    assert without_story(value) == value
    freed = msgspec.json.decode(value, type=TranscriptFacts)
    assert freed.report == facts.report
    assert follow("claude", str(followed), str(tmp_path), freed, NOW) is freed
    transcript = bakery(ClaudeTranscript(folder=str(tmp_path)))
    transcript.ask("Count the loaves.")
    followed.write_bytes(transcript.data())
    whole = follow("claude", str(followed), str(tmp_path), freed, NOW).report
    assert whole == follow("claude", str(followed), str(tmp_path), facts, NOW).report


def test_the_next_session_of_a_task_adds_to_what_was_asked(followed: Path, tmp_path: Path) -> None:
    """Another file continues the story, in another client, too."""
    facts = follow("claude", str(followed), str(tmp_path), NO_FACTS, NOW)
    codex = CodexTranscript(folder=str(tmp_path))
    codex.ask("Now count the loaves.")
    later = follow("codex", str(codex.save(tmp_path / "home")), str(tmp_path), facts, NOW).report.mission
    assert isinstance(later, str)
    assert later.startswith(ASKED)
    assert later.endswith("Then: Now count the loaves.")


def test_no_secret_is_kept_and_one_is_hidden_in_what_is_read_later(followed: Path, tmp_path: Path) -> None:
    """A password that a prompt gave is known again by its place in the file alone."""
    transcript = bakery(ClaudeTranscript(folder=str(tmp_path)))
    facts = follow("claude", str(followed), str(tmp_path), NO_FACTS, NOW)
    assert facts.hidden
    transcript.say("I use rye-and-salt for it.")
    followed.write_bytes(transcript.data())
    for kept in (facts, follow("claude", str(followed), str(tmp_path), facts, NOW)):
        data = msgspec.json.encode(kept)
        assert KEY.encode() not in data
        assert b"rye-and-salt" not in data
    assert ASKED_LATER.encode() not in msgspec.json.encode(facts)


def test_more_secrets_than_are_remembered_are_hidden_where_they_are_named(tmp_path: Path) -> None:
    """An agent or a page can say many passwords: none of them makes another one stay."""
    transcript = ClaudeTranscript(folder=str(tmp_path))
    for number in range(MAX_VALUES):
        transcript.ask(f"For the step {number} the password is decoy{number}xyz.")
    path = transcript.save(tmp_path / "home")
    facts = follow("claude", str(path), str(tmp_path), NO_FACTS, NOW)
    transcript.ask("The password is rye-and-salt.")
    transcript.say("I use rye-and-salt for it.")
    path.write_bytes(transcript.data())
    later = follow("claude", str(path), str(tmp_path), facts, NOW)
    assert later.end > facts.end
    assert b"rye-and-salt" not in msgspec.json.encode(later)
    for number in range(MAX_VALUES):
        transcript.ask(f"For the step {number} the password is another{number}xyz.")
        transcript.say(f"I use another{number}xyz for it.")
    path.write_bytes(transcript.data())
    whole = msgspec.json.encode(follow("claude", str(path), str(tmp_path), NO_FACTS, NOW))
    assert not re.findall(rb"decoy|another\d", whole)


def test_a_long_session_stays_within_bounds(tmp_path: Path) -> None:
    """Thousands of prompts, calls and files."""
    transcript = ClaudeTranscript(folder=str(tmp_path))
    for number in range(600):
        transcript.ask(f"Do not stop at {number}. " + "x" * 9000)
        transcript.run(f"python3 step{number}.py " + "y" * 3000, 0, "z" * 3000)
        transcript.edit(f"file{number}.py")
        transcript.say("w" * 9000)
    facts = follow("claude", str(transcript.save(tmp_path / "home")), str(tmp_path), NO_FACTS, NOW)
    assert len(msgspec.json.encode(facts)) < MAX_BYTES
    assert isinstance(facts.report.mission, str)
    assert len(facts.report.mission) < 13_000


def test_a_link_is_not_followed(followed: Path, tmp_path: Path) -> None:
    """Nor is a device read."""
    link = tmp_path / "link.jsonl"
    link.symlink_to(followed)
    with pytest.raises(InvalidError):
        follow("claude", str(link), str(tmp_path), NO_FACTS, NOW)
    os.mkfifo(tmp_path / "fifo.jsonl")
    with pytest.raises(InvalidError):
        follow("claude", str(tmp_path / "fifo.jsonl"), str(tmp_path), NO_FACTS, NOW)
