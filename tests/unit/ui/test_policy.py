"""The policy page: the rules with their places, and the answer about a call."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from support.page_in_memory import PageInMemory
from support.task_sessions import SECRET, SharedTask
from support.waiting import called, opened

POLICY = """policy shop v1
allow files.*
deny files.delete
confirm before files.write where path matches "src/*"
budget calls=5
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    (tmp_path / "work/.aex").mkdir(parents=True)
    (tmp_path / "work/.aex/policy.aex").write_text(POLICY)
    return tmp_path / "work"


def page(root: Path) -> PageInMemory:
    shared = SharedTask()
    return PageInMemory(shared.store, shared.clock, root=str(root)).enter()


def asked(root: Path, tool: str, arguments: str = "") -> str:
    return page(root).get(f"/policy?{urlencode({'tool': tool, 'args': arguments})}")


def test_every_rule_is_shown_with_its_place(root: Path) -> None:
    """Patterns and clauses, each with file and line, by what they do."""
    shown = page(root).get("/policy")
    for text in (
        ".aex/policy.aex:2",
        ".aex/policy.aex:3",
        ".aex/policy.aex:4",
        "files.delete",
        "5 calls for each task",
    ):
        assert text in shown
    assert str(root) + "/.aex" not in shown


@pytest.mark.parametrize(
    ("tool", "arguments", "answer"),
    [
        ("files.read", "", "Yes"),
        ("files.delete", "", "No"),
        ("net.get", "", "No"),
        ("files.write", '{"path": "src/a.py"}', "Needs approval"),
    ],
)
def test_a_call_is_judged_as_the_proxy_would(root: Path, tool: str, arguments: str, answer: str) -> None:
    """The answer, and the rules that say so."""
    shown = asked(root, tool, arguments)
    assert f">{answer}</strong>" in shown
    assert "asks a person" in shown or answer != "Needs approval"


@pytest.mark.parametrize("arguments", ["[", "[]", "3", "[" * 5_000, '{"a": 1, "a": 2'])
def test_arguments_that_are_none_are_said(root: Path, arguments: str) -> None:
    """The page stays, and says what is wrong."""
    assert "not a JSON object" in asked(root, "files.read", arguments)


def test_what_was_typed_is_inert(root: Path) -> None:
    """A tool or an argument with markup is text."""
    shown = asked(root, "<script>alert(1)</script>", '{"<script>": "</textarea><script>alert(1)</script>"}')
    assert "<script>alert" not in shown


def test_a_broken_policy_is_shown_with_its_errors(root: Path) -> None:
    """The finding, with its place; and nothing is written."""
    (root / ".aex/policy.aex").write_text("policy shop v1\nalow files.*\n")
    shown = page(root).get("/policy")
    assert "policy.aex:2" in shown
    assert (root / ".aex/policy.aex").read_text() == "policy shop v1\nalow files.*\n"


def test_without_a_policy_the_page_says_what_to_do(tmp_path: Path, root: Path) -> None:
    """It names the command that writes one."""
    (root / ".aex/policy.aex").unlink()
    assert "adjourn init" in page(root).get("/policy")


def replayed(root: Path, shared: SharedTask, text: str) -> str:
    site = PageInMemory(shared.store, shared.clock, root=str(root)).enter()
    csrf = {"csrf": site.access.form_token}
    return unescape(site.request("POST", "/policy/replay", data={**csrf, "text": text}).text)


def test_another_policy_is_tried_on_the_history(root: Path) -> None:
    """The form has the policy's text; a changed one is decided on for every recorded call, beside the present one; nothing is written."""
    shared = SharedTask()
    task = opened(shared)
    for number, tool in enumerate(("files.read", "files.read", "files.list", "files.stat")):
        called(task, f"c{number}", tool)
    assert POLICY in unescape(page(root).get("/policy"))
    text = POLICY.replace("deny files.delete", "deny files.read").replace("budget calls=5", "confirm before files.list")
    shown = replayed(root, shared, text)
    assert "Of 4 recorded calls it would refuse 2, and ask about 1." in shown
    assert "The policy as it is: 0 and 0." in shown
    assert re.findall(r'<td class="mono">(files.\w+)(?: \(2\))?</td>', shown) == ["files.read", "files.list"]
    assert (root / ".aex/policy.aex").read_text() == POLICY


def test_a_text_that_is_no_policy_is_explained(root: Path) -> None:
    """The findings of `adjourn policy check` are shown with their lines, the text stays in the form, nothing is decided on."""
    shown = replayed(root, SharedTask(), "policy shop v1\nallwo files.*</textarea><script>")
    assert "not a policy that a proxy would start with" in shown
    assert ".aex/policy.aex:2" in shown
    assert "allwo files.*" in shown
    assert "recorded calls" not in shown
