"""Facts that name what they depend on: measured when noted, told as stale once that changed, and never a way out of the workspace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import InvalidError
from adjourn.handover.record_sections import SectionRequest, describe_record
from adjourn.handover.resumption import Reader, hand_over
from adjourn.knowledge.cognition.repository import SessionRepository
from adjourn.knowledge.records import agent_notes, dependencies
from adjourn.knowledge.records.dependencies import MAX_DEPENDENCIES, NO_SURROUNDINGS, around_here, stale_facts
from support.workspace import Workspace

PORT = "the port is 8080"


class Noting:
    """One agent that notes facts in a workspace, and what its successor learns."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.context = workspace.context()
        self.session = self.context.sessions.open()
        self.around = around_here(str(workspace.root), self.session.task.secret)

    def note(self, **said: Any) -> agent_notes.NoteResult:
        return agent_notes.add(self.session, agent_notes.read_note(said), self.around)

    def told(self) -> str:
        """The facts of a hand-over."""
        made = self.workspace.save(self.context)
        brief = hand_over(self.workspace.task(made.event.task), made, Reader(str(self.workspace.root)))
        return "\n".join(item.text for section in brief.sections if section.name == "facts" for item in section.items)

    def facts(self) -> list[dict[str, Any]]:
        request = SectionRequest(section="facts")
        return list(describe_record(self.workspace.store, self.session.task.id, request, self.around)["items"])


@pytest.fixture
def noting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Noting:
    return Noting(Workspace(tmp_path, monkeypatch, store="sqlite"))


def test_a_fact_is_stale_once_its_file_changed_or_is_gone(noting: Noting) -> None:
    """While the file is as it was, it is a fact like any other. Noted again, it is current again."""
    file = noting.workspace.root / "app.toml"
    file.write_text("port = 8080")
    assert noting.note(facts=[{"fact": PORT, "files": ["app.toml"]}, "the sky is blue"]).added == {"facts": 2}
    assert noting.told() == f"the sky is blue\n{PORT}"
    file.write_text("port = 9090")
    assert noting.told().startswith(f"STALE, check again (app.toml changed): {PORT}\n")
    file.unlink()
    assert f"STALE, check again (app.toml is gone): {PORT}" in noting.told()
    file.write_text("port = 8080")
    assert "STALE" not in noting.told()
    file.write_text("port  = 8080")
    again = noting.note(facts=[PORT.upper()])
    assert (again.added, again.revised, again.ignored) == ({}, {"facts": 1}, [])
    assert "STALE" not in noting.told()


def test_a_fact_that_is_noted_again_without_its_file_depends_on_it_no_longer(noting: Noting) -> None:
    """Its file is gone and the agent confirms the fact: that is no reason to doubt it."""
    file = noting.workspace.root / "app.toml"
    file.write_text("port = 8080")
    noting.note(facts=[{"fact": PORT, "files": ["app.toml"]}])
    file.unlink()
    noting.note(facts=[PORT])
    assert (noting.told(), [fact for fact in noting.facts() if "dependsOn" in fact]) == (PORT, [])


def test_a_fact_is_stale_once_its_variable_changed(noting: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of a variable is stored nowhere."""
    monkeypatch.setenv("APP_MODE", "hunter-two")
    noting.note(facts=[{"fact": PORT, "env": ["APP_MODE"]}])
    assert "STALE" not in noting.told()
    monkeypatch.setenv("APP_MODE", "test")
    assert "($APP_MODE changed)" in noting.told()
    monkeypatch.delenv("APP_MODE")
    assert "($APP_MODE is not set)" in noting.told()
    texts = [path.read_bytes() for path in noting.workspace.root.rglob("*") if path.is_file()]
    assert not any(b"hunter-two" in text for text in texts)


def test_a_fact_is_stale_once_a_newer_fact_states_another_version(noting: Noting) -> None:
    """The version that was stated last is the present one, and facts of the earlier one say which it was."""
    noting.note(facts=[{"fact": "MERGE is not there", "versions": {"postgres": "14"}}])
    noting.workspace.clock.move(seconds=1)
    noting.note(facts=[{"fact": "the server was upgraded", "versions": {"postgres": "16"}}])
    assert noting.told().splitlines() == [
        "STALE, check again (postgres is 16 now, was 14): MERGE is not there",
        "the server was upgraded",
    ]


def test_an_agent_reads_what_a_fact_depends_on_by_name(noting: Noting) -> None:
    """Digests are for the comparison; the answer to the agent has names, and why the fact is stale."""
    (noting.workspace.root / "a.py").write_text("x")
    noting.note(facts=[{"fact": PORT, "files": ["a.py"], "versions": {"node": "22"}}])
    (noting.workspace.root / "a.py").write_text("y")
    [fact] = noting.facts()
    assert fact["dependsOn"] == {"files": ["a.py"], "versions": {"node": "22"}}
    assert fact["stale"] == "a.py changed"


def test_nothing_outside_of_the_workspace_is_read(noting: Noting, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A path or link that leads out is refused; one that comes to lead out makes the fact stale, unread."""
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_text("key")
    root = noting.workspace.root
    (root / "link").symlink_to(outside)
    os.mkfifo(root / "pipe")
    for path in (str(outside), "../outside/secret", "link", "pipe", ".", "a\0b", "nothing"):
        with pytest.raises(InvalidError, match="depends on"):
            noting.note(facts=[{"fact": PORT, "files": [path]}])
    assert noting.context.store.refs("record/") == {} or noting.facts() == []
    (root / "file").write_text("key")
    noting.note(facts=[{"fact": PORT, "files": ["file"]}])
    (root / "file").unlink()
    (root / "file").symlink_to(outside)  # the same content
    assert "(file changed)" in noting.told()


def test_dependencies_are_bounded(noting: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many are refused, and a file too large to compare counts as "not compared"."""
    (noting.workspace.root / "a").write_text("12345")
    for said in (
        {"files": ["a"] * (MAX_DEPENDENCIES + 1)},
        {"env": ["PATH; rm"]},
        {"versions": {"a b": "1"}},
        {"env": ["NOT_SET_ANYWHERE_1"]},
    ):
        with pytest.raises(InvalidError):
            noting.note(facts=[{"fact": PORT} | said])
    noting.note(facts=[{"fact": PORT, "files": ["a"]}])
    monkeypatch.setattr(dependencies, "MAX_READ", 4)
    assert "(a was not compared)" in noting.told()
    with pytest.raises(InvalidError, match="cannot be read"):
        noting.note(facts=[{"fact": "other", "files": ["a"]}])


def test_files_that_are_elsewhere_are_not_compared(noting: Noting) -> None:
    """For a reader without the work tree no file is gone, and it can name none."""
    (noting.workspace.root / "a").write_text("1")
    noting.note(facts=[{"fact": PORT, "files": ["a"]}])
    state = SessionRepository(noting.workspace.store).open(noting.session.task.id)
    assert state is not None
    facts = state.session["workingState"]["epistemicState"]["facts"]
    assert [fact["content"] for fact in facts] == [PORT]
    assert stale_facts(facts, NO_SURROUNDINGS) == {}
    with pytest.raises(InvalidError, match="elsewhere"):
        agent_notes.add(noting.session, agent_notes.read_note({"facts": [{"fact": "x", "files": ["a"]}]}))


def test_a_basis_of_another_program_is_no_error() -> None:
    """A fact with a member of that name in another form is simply a fact."""
    assert stale_facts([{"id": "f", "content": "x", "dependsOn": ["a"]}], NO_SURROUNDINGS) == {}


def test_a_small_file_with_a_secret_is_not_measured(noting: Noting) -> None:
    """Whoever has its digest could try secrets until one fits, so the note is refused."""
    (noting.workspace.root / ".env").write_text("API_TOKEN=ghp_" + "a1B2" * 9 + "\n")
    with pytest.raises(InvalidError, match="which cannot be read: it has secrets"):
        noting.note(facts=[{"fact": PORT, "files": [".env"]}])
