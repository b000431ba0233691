"""`adjourn policy draft`, `review` and `classify` as people and scripts meet them: real processes, a model on loopback."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from adjourn.aex.templates import sample_task
from adjourn.testing import ModelServer, ScriptedReply
from support.policies import POLICY
from support.proxy import Done, run

GOOD = 'task anything v0\ngoal "Read."\nuse file.read\nneed a: list[file]\ndo file.read(paths=a) -> b\nreturn b\n'
BEYOND = GOOD.replace("file.read", "network.fetch")
HANDLER = f"""\
def good(system, prompt):
    open("prompt", "w").write(prompt)
    return {GOOD!r}
def beyond(system, prompt): return {BEYOND!r}
"""


class Place:
    """A workspace with a policy, and the commands that a person runs there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".aex").mkdir()
        (root / ".aex" / "policy.aex").write_text(POLICY)
        (root / "my_model.py").write_text(HANDLER)
        (root / "task.aex").write_text(sample_task("sample"))

    def run(self, *arguments: str, server: ModelServer | None = None, stdin: int = subprocess.DEVNULL) -> Done:
        known = ("ANTHROPIC_", "OPENAI_", "AEX_", "ADJOURN_")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(known)}
        environment |= {"ADJOURN_CONFIG": f"{self.root}-config"} | (server.environment() if server else {})
        return run(*arguments, cwd=self.root, env=environment, stdin=stdin)

    def drafts(self) -> list[Path]:
        return sorted((self.root / ".aex" / "runs").glob("*"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_draft_comes_from_a_provider(place: Place) -> None:
    """The first answer goes beyond the policy; the second is kept. The model saw the policy and the findings."""
    with ModelServer(ScriptedReply(f"```aex\n{BEYOND}```"), ScriptedReply(GOOD)) as server:
        done = place.run("draft", "read", "the", "notes", "--model", "openai:some-model", server=server)
    assert done.code == 0, done
    (path,) = place.drafts()
    assert done.first == f".aex/runs/{path.name}: valid task, 2 attempts"
    assert path.name.endswith("-read_notes.aex")
    assert path.read_text() == GOOD.replace("anything", "read_notes")
    first, second = server.asked
    assert first.body["model"] == "some-model"
    assert POLICY.strip() in first.system
    assert first.prompt == "read the notes"
    assert "AEX134" in second.prompt


def test_what_stays_beyond_the_policy_is_kept_and_told(place: Place) -> None:
    """Exit code 1, the findings with their lines, and the draft to be corrected by hand."""
    done = place.run("draft", "fetch", "--model-handler", "my_model:beyond")
    assert done.code == 1
    (path,) = place.drafts()
    assert done.first == f".aex/runs/{path.name}: not valid, 1 to fix, 2 attempts"
    assert "3 | use network.fetch" in done.out
    told = place.run("draft", "fetch", "--model-handler", "my_model:beyond", "--json", "--max-retries", "0")
    assert told.code == 1
    assert [finding["code"] for finding in told.json["findings"]] == ["AEX134"]
    assert (told.json["valid"], told.json["attempts"], told.json["task"]) == (False, 1, "fetch")


def test_a_plan_is_a_request_and_the_file_can_be_named(place: Place) -> None:
    """`--from-plan` is sent as it is, with the prompt behind it; `--out` replaces nothing."""
    (place.root / "plan.md").write_text("# Read the notes\n\n1. read\n")
    model = ("--model-handler", "my_model:good")
    options = ("--from-plan", "plan.md", "--name", "a/b", "--out", "here.aex", *model)
    done = place.run("draft", "quickly", *options)
    again = place.run("draft", "quickly", *options)
    assert (done.code, done.first) == (0, "here.aex: valid task")
    assert (place.root / "prompt").read_text() == "# Read the notes\n\n1. read\n\n\nquickly"
    assert (place.root / "here.aex").read_text().startswith("task a_b v0\n")
    assert (again.code, again.err.split("\n")[0]) == (1, "adjourn: here.aex already exists")
    assert not place.drafts()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("x",), 2, "no model is named"),
        (("x", "--model", "mistral"), 2, "unknown model provider 'mistral'"),
        (("x", "--model", "anthropic"), 1, "ANTHROPIC_API_KEY is not set"),
        (("x", "--model", "openai:gpt"), 1, "OPENAI_API_KEY is not set"),
        (("x", "--model-handler", "missing:f"), 2, "cannot be imported"),
        (("--model-handler", "my_model:good"), 2, "the request is empty"),
        (("--from-plan", "missing.md", "--model-handler", "my_model:good"), 1, "missing.md"),
        (("x", "--policy", "missing.aex", "--model-handler", "my_model:good"), 1, "AEX130"),
    ],
)
def test_what_cannot_start_says_why_and_writes_nothing(
    arguments: tuple[str, ...], code: int, words: str, place: Place
) -> None:
    """Wrong usage is 2, a missing key or file 1; nothing is kept."""
    done = place.run("draft", *arguments)
    assert done.code == code
    assert words in done.err
    assert not done.out
    assert not place.drafts()


def test_a_provider_that_fails_leaves_nothing(place: Place) -> None:
    """Its words and its status are shown, made safe."""
    with ModelServer(ScriptedReply("no\x1b[31m way", status=400)) as server:
        done = place.run("draft", "x", "--model", "openai", server=server)
    assert done.code == 1
    assert "answered 400" in done.err
    assert "\x1b" not in done.err
    assert not place.drafts()


def test_a_broken_policy_stops_drafting_and_reviewing(place: Place) -> None:
    """With its findings: nobody is to work by what is left of it."""
    (place.root / ".aex" / "policy.aex").write_text(POLICY + "denny network.*\n")
    for arguments in (("draft", "x", "--model-handler", "my_model:good"), ("review", "task.aex")):
        done = place.run(*arguments)
        assert (done.code, done.out) == (1, "")
        assert "denny" in done.err


def test_a_review_answers_in_its_first_line(place: Place) -> None:
    """Whether the task runs, then what it asks for and gets; exit code 1 where it would not run."""
    done = place.run("review", "task.aex")
    assert (done.code, done.first) == (0, "Status: valid, runs under .aex/policy.aex")
    for piece in (
        "Effective: budget:\n  calls=20",
        "Checks:\n  patch is valid diff",
        "make patch: diff from failure, sources",
    ):
        assert piece in done.out
    (place.root / "beyond.aex").write_text(BEYOND)
    beyond = place.run("review", "beyond.aex")
    assert (beyond.code, "refuses something" in beyond.first) == (1, True)
    (place.root / "broken.aex").write_text('task t v0\ngoal "\x1b[31m"\n')
    broken = place.run("review", "broken.aex")
    assert (broken.code, broken.first) == (1, "Status: not valid, would not run")
    assert "\x1b" not in broken.out
    missing = place.run("review", "missing.aex")
    assert (missing.code, missing.out) == (1, "")


def test_a_review_for_machines_has_the_published_fields(place: Place) -> None:
    """Paths are relative to where it was asked; a policy that is not there is left out."""
    told = place.run("review", str(place.root / "task.aex"), "--json").json
    assert told["source"] == {"task": "task.aex", "policy": ".aex/policy.aex"}
    assert told["runsUnderPolicy"] is told["valid"] is True
    assert told["confirmRequired"] == ["file.write"]
    (place.root / ".aex" / "policy.aex").unlink()
    assert place.run("review", "task.aex", "--json").json["source"] == {"task": "task.aex"}


def test_d29_a_review_and_the_effective_permissions_agree(place: Place) -> None:
    """Both print the same patterns for the same files."""
    (place.root / "wide.aex").write_text('task t v0\ngoal "g"\nuse *, file.*, file.read, git.apply\nreturn 1\n')
    told = place.run("review", "wide.aex", "--json").json
    effective = place.run("effective", "--contract", "wide.aex", "--json").json
    assert told["effective"]["allow"] == [rule["pattern"] for rule in effective["allow"]] == ["file.read", "git.apply"]
    assert told["effective"]["deny"] == [rule["pattern"] for rule in effective["deny"]]


@pytest.mark.parametrize("name", ["beyond.aex", "broken.aex"])
def test_what_would_not_run_is_not_run(name: str, place: Place) -> None:
    """Even with --yes."""
    (place.root / "beyond.aex").write_text(BEYOND)
    (place.root / "broken.aex").write_text("task t v0\n")
    done = place.run("review", name, "--run", "--yes")
    assert done.code == 1
    assert f"{name} is not run" in done.err


def test_without_a_terminal_a_run_needs_a_yes(place: Place) -> None:
    """The review is shown, and the run refused as wrong usage."""
    done = place.run("review", "task.aex", "--run")
    assert (done.code, done.first) == (2, "Status: valid, runs under .aex/policy.aex")
    assert "with --yes" in done.err


def test_a_review_that_holds_is_run(place: Place) -> None:
    """With --yes and without a terminal: the review, then the run, with the inputs and the model that were named."""
    text = GOOD.replace("return b", "make c: str from b with:\n  - short\nreturn c")
    (place.root / "read.aex").write_text(text)
    (place.root / "inputs.json").write_text('{"a": ["task.aex"]}')
    options = ("--inputs", "inputs.json", "--model-handler", "my_model:good")
    done = place.run("review", "read.aex", "--run", "--yes", *options)
    assert (done.code, done.first) == (0, "Status: valid, runs under .aex/policy.aex"), done
    assert "run.finished" in done.out
    assert json.loads(done.out.partition("runtime success\n")[2]) == GOOD


def test_classify_prints_json(place: Place) -> None:
    """The mode and the reason, also for words that are not quoted."""
    assert place.run("classify", "deploy", "it").json == {
        "mode": "contract_required",
        "reason": '"deploy" says that its effects are hard to undo, or are seen by others',
    }
    assert place.run("classify").code == 2


def on_a_terminal(place: Place, answer: bytes, between: Callable[[], object] = lambda: None) -> tuple[int, str]:
    """`review --run` with a person at the terminal who does something, and answers the question."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place.root)
        os.execv(sys.executable, [sys.executable, "-m", "adjourn", "review", "task.aex", "--run"])
    shown = b""
    with suppress(OSError):  # what a terminal says when the other side has left
        while b"[y/N]" not in shown:
            shown += os.read(terminal, 4096)
        between()
        os.write(terminal, answer)
        while data := os.read(terminal, 4096):
            shown += data
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def test_a_person_is_asked_and_may_say_no(place: Place) -> None:
    """Anything but an approval is a denial."""
    code, shown = on_a_terminal(place, b"\n")
    assert code != 0
    assert "Run task.aex? [y/N]" in shown


def test_what_was_changed_while_it_was_read_is_not_run(place: Place) -> None:
    """An approval counts for the text that was shown."""
    task = place.root / "task.aex"
    code, shown = on_a_terminal(place, b"y\n", lambda: task.write_text(sample_task("other")))
    assert code == 1
    assert "changed while you read" in shown
