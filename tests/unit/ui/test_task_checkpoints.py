"""The page of a task: its checkpoints as branches, and what its agent made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adjourn.checkpoints.page import AgentReport, ReportedArtifact
from adjourn.checkpoints.rollback import carry_out, plan, target_of
from support.page_in_memory import PageInMemory
from support.pages import mark
from support.rollbacks import deployed, make_workspace
from support.workspace import ANN


def test_a_rollback_branches_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each checkpoint leads to its page; one made by going back follows the one that it goes back to, in a lane of its own."""
    workspace = make_workspace(tmp_path, monkeypatch)
    task = deployed(workspace).task
    root = str(workspace.root)
    carry_out(task, root, plan(task, root, target_of(root)), state=True, by=ANN)
    site = PageInMemory(workspace.store, workspace.clock, root=root).enter()
    shown = site.get(f"/task?id={task.id}")
    names = re.findall(r'seq=\d+">([^<]*)</a>', shown)
    assert names[0].endswith("-rollback")
    assert names[1:] == ["n", names[2], "m"]
    svg = re.search(r'<svg class="lanes".*?</svg>', shown, re.DOTALL)
    assert svg is not None
    assert [int(x) for x in re.findall(r'cx="(\d+)"', svg[0])] == [8, 8, 8, 24]
    for seq in re.findall(r"&amp;seq=(\d+)", shown):
        assert site.request("GET", f"/checkpoint?task={task.id}&seq={seq}").status_code == 200


def test_many_checkpoints_and_artifacts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last fifty checkpoints are shown, and a hundred artifacts; the page says that there are more."""
    workspace = make_workspace(tmp_path, monkeypatch)
    made = tuple(ReportedArtifact(path=f"f{number}.md") for number in range(101))
    for number in range(52):
        saved = mark(workspace, said=AgentReport(artifacts=made), name=f"m{number}")
    shown = (
        PageInMemory(workspace.store, workspace.clock, root=str(workspace.root))
        .enter()
        .get(f"/task?id={saved.checkpoint.event.task}")
    )
    assert "Earlier ones are not shown" in shown
    assert len(re.findall(r"&amp;seq=\d+", shown)) == shown.count('<circle class="point"') == 50
    assert "seq=" in shown
    assert "f99.md" in shown
    assert "f100.md</span>" not in shown
    assert "More are on the page of the checkpoint." in shown


def test_artifacts_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the agent says it made, with its note, and whether it is there; a path out of the workspace is not looked at."""
    workspace = make_workspace(tmp_path, monkeypatch)
    (workspace.root / "report.md").write_text("done")
    made = (
        ReportedArtifact(path="report.md", note="for review"),
        ReportedArtifact(path="gone.md"),
        ReportedArtifact(path="/etc/none"),
        ReportedArtifact(path="</li><script>"),
    )
    saved = mark(workspace, said=AgentReport(artifacts=made))
    site = PageInMemory(workspace.store, workspace.clock, root=str(workspace.root)).enter()
    shown = site.get(f"/task?id={saved.checkpoint.event.task}")
    rows = re.findall(r"<li><span class=\"mono\">(.*?)</span>(.*?)</li>", shown)
    assert [(path, "not there" in rest) for path, rest in rows] == [
        ("report.md", False), ("gone.md", True), ("/etc/none", False), ("&lt;/li&gt;&lt;script&gt;", True),
    ]  # fmt: skip
    assert "for review" in shown
