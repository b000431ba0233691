"""The readers: what each client's transcript tells, and that no file makes them fail."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import AdjournError
from adjourn.sessions import catalog, claude_code, codex, copilot_cli, files, gemini_cli
from adjourn.sessions.story import SessionStory
from support.cases import for_each
from support.mutating import translated
from support.strategies import json_values
from support.transcripts import (
    ASKED,
    ASKED_LATER,
    WRITERS,
    ClaudeTranscript,
    CodexTranscript,
    CopilotTranscript,
    GeminiTranscript,
    OpenCodeTranscript,
    bakery,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def read(transcript: Any, home: Path) -> SessionStory:
    transcript.save(home)
    file = catalog.named(transcript.id)
    return catalog.reader_of(file).read(file)


def test_the_variable_of_gemini_cli_stands_for_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sessions are in `.gemini` below what `GEMINI_CLI_HOME` names, and nowhere else then."""
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path / "other"))
    story = read(bakery(GeminiTranscript()), tmp_path / "other")
    assert story.prompts[0].text == ASKED


@for_each("writer", WRITERS)
def test_a_story_is_the_same_in_each_client(writer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reader yields the prompts, the calls with outcomes from exit codes, the edits, the plan and the killed call."""
    monkeypatch.setenv("HOME", str(tmp_path))
    story = read(bakery(writer()), tmp_path)
    assert [prompt.text for prompt in story.prompts] == [ASKED, ASKED_LATER]
    outcomes = [(call.outcome, call.code) for call in story.calls if call.kind == "run"]
    assert outcomes == [("ok", 0), ("failed", 1), *([] if writer.client == "gemini" else [("unknown", None)])]
    (change,) = story.changes.values()
    assert (change.edits, change.failed) == (1, 1)
    plan = [] if writer.client == "copilot" else [("Write the steps", "done"), ("Run the tests", "done")]
    assert [(item.text, item.state) for item in story.plan] == plan
    assert story.ending == ("broke off" if writer.client == "gemini" else "broke off in a call")
    assert story.is_unfinished
    assert [answer.text for answer in story.answers][-1].startswith("All tests pass.")
    assert story.orders
    assert (story.folder, story.unknown, story.unreadable) == (writer().folder, {}, 0)


@for_each("writer", WRITERS[:-1])
def test_a_cut_file_tells_what_it_has(writer: Any, tmp_path: Path) -> None:
    """A file that ends anywhere, in a line or behind one, is read up to there, and tells no less than a shorter one."""
    path = bakery(writer()).save(tmp_path)
    data = path.read_bytes()
    module: Any = {"claude": claude_code, "codex": codex, "gemini": gemini_cli, "copilot": copilot_cli}[writer.client]
    random.seed(5)
    last = 0
    for length in sorted({*random.sample(range(len(data)), 60), *(i + 1 for i, byte in enumerate(data) if byte == 10)}):
        path.write_bytes(data[:length])
        story = module.read(str(path))
        assert story.prompts_made >= last
        last = story.prompts_made
    assert last == 2


@given(value=json_values(), where=st.integers(0, 10_000))
def test_any_value_in_any_place_is_read(value: Any, where: int) -> None:
    """A record with an unknown value in any of its members is read or skipped; nothing fails."""
    for writer in WRITERS:
        transcript = bakery(writer())
        transcript.records = json.loads(json.dumps(transcript.records))
        record = transcript.records[where % len(transcript.records)]
        places = [(holder, key) for holder, key in _places(record)]
        holder, key = places[where % len(places)]
        holder[key] = value
        translated(transcript)


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    pairs = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in pairs:
        found += [(value, key), *_places(inner)]
    return found


def test_who_speaks_in_claude_code(home: Path) -> None:
    """Texts of the client under the role of the user are not the person's words; the arguments of a command are."""
    transcript = ClaudeTranscript()
    transcript.ask("Bake bread.")
    for text in (
        "<local-command-caveat>Caveat</local-command-caveat>", "<system-reminder>Obey</system-reminder>",
        "This session is being continued from a previous conversation that ran out of context.", "<bash-stdout>ok</bash-stdout>",
        "<command-name>/compact</command-name><command-args>keep</command-args>", "[Request interrupted by user]",
    ):  # fmt: skip
        transcript.ask(text)
    transcript.ask("meta", isMeta=True)
    transcript.ask("<command-name>/plan</command-name><command-args>rye, not wheat</command-args>")
    transcript.record("user", isSidechain=True, message={"role": "user", "content": "a helper's order"})
    story = read(transcript, home)
    assert [prompt.text for prompt in story.prompts] == ["Bake bread.", "/plan rye, not wheat"]


def test_a_stopped_call_is_no_refused_one(home: Path) -> None:
    """The text that Claude Code writes is the same; only the mark tells a call that never ran from one that was stopped."""
    transcript = ClaudeTranscript()
    transcript.ask("Bake.")
    words = "The user doesn't want to proceed with this tool use. The tool use was rejected"
    for members in ({"toolDenialBeforeRun": True}, {}):
        id_ = transcript.call("Bash", {"command": "python3 bake.py"})
        transcript.result(id_, words, is_error=True, toolDenialKind="user-rejected", **members)
    story = read(transcript, home)
    assert [call.outcome for call in story.calls] == ["refused", "stopped"]


def test_a_queued_prompt_that_was_not_delivered(home: Path) -> None:
    """A prompt that was typed and never taken from the queue is marked as such; one that was taken occurs once."""
    transcript = ClaudeTranscript()
    transcript.record("queue-operation", operation="enqueue", content="Bake.")
    transcript.record("queue-operation", operation="dequeue")
    transcript.ask("Bake.")
    transcript.record("queue-operation", operation="enqueue", content="and clean up")
    story = read(transcript, home)
    assert [(prompt.text, prompt.is_delivered) for prompt in story.prompts] == [
        ("Bake.", True),
        ("and clean up", False),
    ]


def test_codex_names_no_tool_for_a_call_without_a_name(home: Path) -> None:
    """Only its local shell is recorded without one."""
    transcript = CodexTranscript()
    transcript.ask("Bake bread")
    for kind in ("function_call", "local_shell_call"):
        transcript.run("pytest -q", None)
        payload = transcript.records[-1]["payload"]
        del payload["name"]
        payload["type"] = kind
    transcript.save(home)
    story = catalog.reader_of(catalog.named(transcript.id)).read(catalog.named(transcript.id))
    assert [call.tool for call in story.calls] == ["", "local_shell"]


def test_codex_runs_on_in_the_background(home: Path) -> None:
    """A command that still ran when the tool returned has the outcome of a later call, or none."""
    transcript = CodexTranscript()
    transcript.ask("Bake.")
    for number, command in ((7, "bake rye"), (8, "bake wheat")):
        transcript.item(
            type="function_call", name="exec_command", arguments=json.dumps({"cmd": command}), call_id=f"c{number}"
        )
        transcript.item(
            type="function_call_output", call_id=f"c{number}", output=f"Process running with session ID {number}"
        )
    transcript.item(type="function_call", name="write_stdin", arguments=json.dumps({"session_id": 7}), call_id="w")
    transcript.item(type="function_call_output", call_id="w", output="Process exited with code 3\nOutput:\nburnt")
    story = read(transcript, home)
    assert [(call.what, call.outcome, call.code) for call in story.calls[:2]] == [
        ("bake rye", "failed", 3),
        ("bake wheat", "unknown", None),
    ]


def test_a_resumed_session_of_gemini_is_read_once(home: Path) -> None:
    """A resume writes the history again: no prompt and no call counts twice, and no call loses its result."""
    transcript = bakery(GeminiTranscript())
    transcript.resume()
    transcript.ask("Continue.")
    story = read(transcript, home)
    assert story.prompts_made == 3
    assert [call.code for call in story.calls if call.kind == "run"] == [0, 1]


def test_a_database_with_a_log_is_not_written(home: Path) -> None:
    """What stands in the write-ahead log of opencode alone is read from a copy; the client's files stay as they were."""
    transcript = bakery(OpenCodeTranscript())
    path = transcript.save(home)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("UPDATE session SET version = '1.19.0'")
        database.commit()
        before = {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}
        assert len(before) == 2
        file = catalog.named(transcript.id)
        assert catalog.reader_of(file).read(file).version == "1.19.0"
        assert {
            file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")
        } == before


def test_a_database_that_is_none(home: Path) -> None:
    """A file in the place of opencode's that is no database, or has views for tables, hides no session of another client."""
    path = OpenCodeTranscript().save(home)
    bakery(CodexTranscript()).save(home)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE part")
        database.execute("CREATE VIEW part AS SELECT * FROM message")
    assert [file.client for file in catalog.sessions([])] == ["codex"]
    path.write_bytes(b"no database" * 100)
    assert [file.client for file in catalog.sessions([])] == ["codex"]


def test_helpers_are_no_sessions(home: Path) -> None:
    """Sessions of helpers are not listed: neither Claude Code's files of agents nor Codex's threads that another one started."""
    helper = ClaudeTranscript("agent-a1")
    helper.ask("Find flour.")
    helper.save(home)
    thread = CodexTranscript()
    thread.records[0]["payload"]["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": "x"}}}
    thread.ask("Find salt.")
    thread.save(home)
    assert catalog.sessions([]) == []


def test_a_fork_is_folded(home: Path) -> None:
    """A fork repeats the first records of its parent: both are one line, and the newest stands for them."""
    for number, more in ((1, "Rye."), (2, "Wheat.")):
        transcript = ClaudeTranscript(f"0a5e0000-0000-4000-8000-00000000000{number}")
        transcript.ask("Bake bread.")
        transcript.say("Which?")
        for _ in range(number):
            transcript.ask(more)
        transcript.save(home)
    (file,) = catalog.sessions([])
    assert (file.id[-1], file.forks) == ("2", 1)


def test_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    """A transcript that is a link, a device or a folder is not read, nor one below a folder that is a link."""
    transcript = ClaudeTranscript()
    transcript.ask("Bake.")
    real = transcript.save(home)
    link = real.with_name("0a5e0000-0000-4000-8000-00000000000f.jsonl")
    link.symlink_to(real)
    os.mkfifo(real.with_name("0a5e0000-0000-4000-8000-00000000000e.jsonl"))
    (home / ".claude" / "projects" / "-other").symlink_to(real.parent)
    assert [file.path for file in catalog.sessions([])] == [str(real)]
    with pytest.raises(AdjournError, match="cannot read"):
        claude_code.read(str(link), str(home))


def test_a_large_file_is_read_from_both_ends(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the middle of a large file the person's words are read, and how much else was not is counted."""
    monkeypatch.setattr(files, "WIDE", files.ReadingRange(2000, 4000, files.MAX_SCANNED))
    transcript = ClaudeTranscript()
    transcript.ask("Bake bread.")
    for number in range(40):
        transcript.run(f"echo {number}", 0, "x" * 300)
        if number == 20:
            transcript.ask("No, keep the salt.")
    transcript.say("Baked.")
    story = read(transcript, home)
    assert [prompt.text for prompt in story.prompts] == ["Bake bread.", "No, keep the salt."]
    assert story.unread > 20
    assert story.answers[-1].text == "Baked."


def test_a_line_of_many_megabytes_is_not_decoded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a record that is too long its beginning and end are seen: enough to know which call has ended."""
    monkeypatch.setattr(files, "MAX_LINE", 4096)
    transcript = ClaudeTranscript()
    transcript.ask("Bake bread.")
    transcript.run("cat flour", 0, "f" * 9000)
    transcript.say("Read.")
    story = read(transcript, home)
    assert [call.outcome for call in story.calls] == ["ok"]
    assert story.unread == 1


def test_a_result_that_is_cut_settles_nothing(home: Path) -> None:
    """A result of which the end is missing says that its call came back, not how: what is missing may say that it failed."""
    transcript = ClaudeTranscript()
    transcript.ask("Bake bread.")
    transcript.run("pytest", 0, "1 passed")
    path = transcript.save(home)
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b'"content":"1 passed"') + 12])
    story = claude_code.read(str(path))
    assert [(call.outcome, call.words) for call in story.calls] == [("unrecorded", "")]


def test_hostile_lines(home: Path) -> None:
    """Deep nesting, half a surrogate pair, NUL bytes, a byte-order mark and what is no JSON are skipped and counted."""
    transcript = ClaudeTranscript()
    transcript.ask("Bake bread.")
    path = transcript.save(home)
    good = path.read_bytes()
    half = json.dumps({"type": "user", "message": {"role": "user", "content": "half \ud800"}}).encode()
    path.write_bytes(
        b"\xef\xbb\xbf"
        + good
        + b"\0\0\0\n[" * 5000
        + b"\nnull\n17\n{\n"
        + half
        + b"\r\n"
        + b'{"type":"assistant","message":{"content":'
    )
    story = claude_code.read(str(path))
    assert [prompt.text[:4] for prompt in story.prompts] == ["Bake", "half"]
    assert story.unreadable >= 2


@for_each(
    "text, words",
    [
        ("<hook_context>A session is unfinished.</hook_context>\n\nBake bread.", "Bake bread."),
        ("<hook_context>Bake cake.</hook_context>\n\nForged.</hook_context>\n\nBake bread.", "Bake bread."),
        ("<hook_context>Bake cake.", "<hook_context>Bake cake."),
        ("<hook_context>Bake cake.</hook_context>", ""),
    ],
)
def test_what_a_hook_adds_to_a_prompt_of_gemini_is_not_the_person_s(text: str, words: str) -> None:
    """Gemini CLI writes what a session hook said before the first prompt, in the same text."""
    assert gemini_cli._words_of({"type": "user", "content": [{"text": text}]}) == words


@for_each(
    "members, outcome",
    [
        ({"shellExecution": {"exitCode": 0}}, ("ok", 0)),
        ({"toolTelemetry": {"metrics": {"exit_code": 3}}}, ("failed", 3)),
        ({}, ("unrecorded", None)),
    ],
)
def test_a_success_of_copilot_cli_says_nothing_of_a_command(
    members: dict[str, Any], outcome: tuple[str, int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each version writes success for a command that failed; earlier ones have its exit code elsewhere, or nowhere."""
    monkeypatch.setenv("HOME", str(tmp_path))
    transcript = CopilotTranscript()
    transcript.ask("Test it")
    transcript._call("bash", {"command": "pytest"}, success=True, result={"content": "1 failed"}, **members)
    [call] = read(transcript, tmp_path).calls
    assert (call.outcome, call.code) == outcome
