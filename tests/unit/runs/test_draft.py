"""Drafting: what the model is shown, what is taken of its answer, what counts as valid, and where the draft is kept."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import from_text
from adjourn.aex.check import examine
from adjourn.aex.expr import LETTERS, NAME, only
from adjourn.aex.templates import sample_task
from adjourn.aex.tree import DECLARATIONS, STEPS, V1_RULES
from adjourn.errors import AdjournError, InvalidError, RefusedError, UsageError
from adjourn.policy.contract import Contract
from adjourn.runs.draft import SECOND_EXAMPLE, STATEMENTS, Draft, draft, headed, name_for, save, system_prompt, unfenced
from adjourn.runs.model import Completion
from support.cases import for_each
from support.policies import POLICY

GOOD = 'task anything v0\ngoal "Read."\nuse file.read\nneed a: list[file]\ndo file.read(paths=a) -> b\nreturn b\n'
BEYOND = GOOD.replace("file.read", "network.fetch")
BROKEN = 'task anything v0\ngoal "Read."\nuse file.read\ndo file.write() -> b\n'
AT = time.struct_time((2026, 3, 4, 5, 6, 7, 0, 0, 0))


class Scripted:
    """A model that gives these answers, one after the other, and keeps what it received."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.told: list[tuple[str, str]] = []

    def complete(self, system: str, prompt: str) -> Completion:
        self.told.append((system, prompt))
        return Completion(text=self.answers[len(self.told) - 1], model="scripted")


def under(text: str = POLICY) -> Contract:
    return Contract(policy=from_text(text, "policy.aex")[0], policy_text=text, policy_source="policy.aex")


def test_a_valid_answer_is_taken() -> None:
    """With the name of the request, and asked once."""
    model = Scripted(GOOD)
    made = draft("Read the change log, please", model, policy=under())
    assert made.valid
    assert made.text == GOOD.replace("anything", "read_change_log")
    assert (made.name, made.attempts, made.model, len(model.told)) == ("read_change_log", 1, "scripted", 1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (BEYOND, "does not grant all of `network.fetch`"),
        (GOOD.replace("file.read", "git.apply"), "denies `git.apply`"),
        (GOOD.replace("use file.read", "use *"), "does not grant all of `*`"),
        (BROKEN, "AEX003"),
        ("I am sorry.", "AEX100"),
        ("policy p v0\n" + POLICY, "AEX136"),
    ],
    ids=["not-granted", "denied", "too-wide", "broken", "prose", "policy"],
)
def test_d39_what_the_policy_or_the_validator_refuses_is_sent_back(answer: str, words: str) -> None:
    """The model is asked again, with its answer and the findings; a draft is only valid when there are none left."""
    policy = under(POLICY + "deny git.apply\n")
    model = Scripted(answer, GOOD)
    made = draft("read", model, policy=policy)
    assert made.valid
    assert made.attempts == 2
    (_, first), (_, second) = model.told
    assert first == "read"
    assert second.startswith("read\n")
    assert words in second
    assert not draft("read", Scripted(answer), policy=policy, max_retries=0).valid


def test_d39_a_draft_that_stays_beyond_the_policy_is_not_valid() -> None:
    """After the last attempt it is handed back as it is, with what it is refused for."""
    made = draft("read", Scripted(BEYOND, BEYOND, BROKEN), policy=under(), max_retries=2)
    assert not made.valid
    assert made.attempts == 3
    assert {found.code for found in made.refused} == {"AEX003", "AEX010"}


def test_without_a_policy_only_the_validator_judges() -> None:
    """Without a policy only the validator judges a draft, and the prompt says so."""
    model = Scripted(BEYOND)
    assert draft("read", model).valid
    assert "There is none" in model.told[0][0]


@pytest.mark.parametrize(("request_", "retries"), [("", 1), (" \n", 1), ("x" * 100_001, 1), ("x", -1), ("x", 11)])
def test_bounds_are_kept_before_anything_is_asked(request_: str, retries: int) -> None:
    """An empty request, a too long one, and too many attempts are refused before the model is asked."""
    with pytest.raises(UsageError):
        draft(request_, Scripted(), max_retries=retries)


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        f"```aex\n{GOOD}```",
        f"Here it is:\n\n```\n{GOOD}```\nIt reads.\n```\nmore\n```",
        f"```aex\r\n{GOOD}".replace("\n", "\r\n"),
        f"  \n{GOOD}\n\n",
    ],
)
def test_fences_and_talk_around_them_are_dropped(answer: str) -> None:
    """The first block is the contract, closed or not."""
    assert unfenced(answer) == GOOD


@pytest.mark.parametrize(
    ("text", "version_1", "header"),
    [
        ("task a v0\nx\n", False, "task n v0"),
        ("# first\nagent a v3\nx\n", False, "task n v0"),
        ("task a v1\nx\n", False, "task n v0"),
        ("task a v1\nx\n", True, "task n v1"),
        ("task a v0\nx\n", True, "task n v0"),
        ("policy a v1\nx\n", True, "task n v1"),
        ("x\n", True, "task n v0"),
    ],
)
def test_the_header_is_ours(text: str, version_1: bool, header: str) -> None:
    """Its name and version are set; version 1 stays where the policy is of version 1."""
    lines = headed(text, "n", version_1=version_1).split("\n")
    assert lines.count(header) == 1
    assert "x" in lines


def test_version_1_is_offered_under_a_policy_of_version_1() -> None:
    """The prompt offers version 1 only under a policy of version 1."""
    model = Scripted(GOOD.replace("v0", "v1"), GOOD.replace("v0", "v1"))
    assert draft("read", model, policy=under(POLICY.replace("v0", "v1"))).text.startswith("task read v1\n")
    assert draft("read", model, policy=under()).text.startswith("task read v0\n")
    assert ["task NAME v1" in system for system, _ in model.told] == [True, False]


@given(st.text())
def test_any_answer_is_put_in_form(answer: str) -> None:
    """Any answer of a model becomes a text that can be stored, with the header of a task."""
    text = headed(unfenced(answer), "n")
    text.encode()
    assert examine(text).headers


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("Fix the failing test in tests/test_api.py", "fix_failing_test_teststestapip"),
        ("please do it", "do"),
        ("the", "generated_task"),
        ("…", "generated_task"),
        ("../../etc/passwd", "etcpasswd"),
        ("Ünïcode only", "ncode_only"),
    ],
)
def test_a_request_gives_its_task_a_name(request_: str, name: str) -> None:
    """A task is named by the first meaningful words of its request."""
    assert name_for(request_) == name


@given(st.text())
def test_a_name_is_always_one(request_: str) -> None:
    """At most 30 letters, digits and underscores."""
    name = name_for(request_)
    assert 0 < len(name) <= 30
    assert only(name, NAME)


def drafted(name: str, text: str = GOOD) -> Draft:
    return draft("read", Scripted(text), name=name, max_retries=0)


def test_a_draft_is_kept_under_its_time_and_name(tmp_path: Path) -> None:
    """A second one of the same second gets a number; nothing is replaced, and nothing is left beside them."""
    assert save(drafted("one"), str(tmp_path), AT) == ".aex/runs/20260304-050607-one.aex"
    assert save(drafted("one", BROKEN), str(tmp_path), AT) == ".aex/runs/20260304-050607-one-2.aex"
    runs = tmp_path / ".aex" / "runs"
    assert sorted(os.listdir(runs)) == ["20260304-050607-one-2.aex", "20260304-050607-one.aex"]
    assert (runs / "20260304-050607-one.aex").read_text() == GOOD.replace("anything", "one")


@for_each("name", ["../../escaped", "/etc/x", "a/b", "..", ".", "\0", "a\nb", "x" * 300, "-", "ü"])
def test_d39_a_name_does_not_leave_the_folder(name: str, tmp_path: Path) -> None:
    """With any --name the draft is a file of `.aex/runs/`."""
    root = tmp_path / "in" / "root"
    root.mkdir(parents=True)
    path = save(drafted(name), str(root), AT)
    assert (root / path).parent.resolve() == (root / ".aex" / "runs").resolve()
    found = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert found == [root / path]
    assert examine(found[0].read_text()).headers


@pytest.mark.parametrize("linked", [".aex", ".aex/runs"])
def test_d39_no_link_leads_out_of_the_folder(linked: str, tmp_path: Path) -> None:
    """A link in place of the folder is refused, and nothing is written behind it."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (root / linked).parent.mkdir(parents=True)
    (root / linked).symlink_to(outside)
    with pytest.raises(RefusedError):
        save(drafted("one"), str(root), AT)
    assert not list(outside.iterdir())


def test_d39_a_link_in_place_of_the_file_is_left_alone(tmp_path: Path) -> None:
    """The draft takes the next name; what the link points at is not written."""
    (tmp_path / ".aex" / "runs").mkdir(parents=True)
    (tmp_path / ".aex" / "runs" / "20260304-050607-one.aex").symlink_to(tmp_path / "target")
    assert save(drafted("one"), str(tmp_path), AT).endswith("-one-2.aex")
    assert not (tmp_path / "target").exists()


def test_a_named_file_is_written_once(tmp_path: Path) -> None:
    """`--out` may be anywhere, and replaces nothing."""
    out = tmp_path / "drafts" / "one.aex"
    out.parent.mkdir()
    assert save(drafted("one"), str(tmp_path / "root"), AT, str(out)) == str(out)
    with pytest.raises(InvalidError, match="already exists"):
        save(drafted("two"), str(tmp_path), AT, str(out))
    assert "task one v0" in out.read_text()
    with pytest.raises(AdjournError):
        save(drafted("one"), str(tmp_path), AT, str(tmp_path / "missing" / "one.aex"))
    assert os.listdir(out.parent) == ["one.aex"]


def test_the_model_is_told_the_whole_language() -> None:
    """Each keyword that a task may have has a line, and none that it may not."""
    declarations = DECLARATIONS - V1_RULES - {"policy", "agent", "allow"}
    assert set(STATEMENTS) == declarations | STEPS
    assert all(line.split()[0] == keyword for keyword, line in STATEMENTS.items())
    assert all(line in system_prompt("") for line in STATEMENTS.values())


def test_the_model_is_told_the_policy() -> None:
    """The prompt holds the policy word for word."""
    assert POLICY.strip() in system_prompt(POLICY)


@pytest.mark.parametrize("example", [SECOND_EXAMPLE, sample_task("fix_failing_test")])
def test_the_examples_are_valid(example: str) -> None:
    """The examples in the prompt are valid without a warning."""
    assert not examine(example).findings
    assert example in system_prompt("")
    assert example[0] in LETTERS
