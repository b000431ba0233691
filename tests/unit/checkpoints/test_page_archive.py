"""Finished work put away and brought back, old checkpoints let go, needless things freed: never a page lost, nor the history."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adjourn.checkpoints import folder as histories
from adjourn.checkpoints import page_archive as archiving
from adjourn.checkpoints.folder import share_histories
from adjourn.checkpoints.folder_verification import verify
from adjourn.checkpoints.page import NO_REPORT, AgentReport, ReportedStep
from adjourn.checkpoints.page_archive import archive, project_of, projects, read_index, restore
from adjourn.checkpoints.page_files import ACTIVE, find_active, search
from adjourn.checkpoints.pruning import DAY, RetentionRules, collect, plan, prune
from adjourn.checkpoints.reflect import Reflection, remember
from adjourn.checkpoints.reflection import Statistic
from adjourn.checkpoints.save import CheckpointRequest, SavedCheckpoint, save_checkpoint
from adjourn.checkpoints.transcript_facts import NO_FACTS, TranscriptFacts, keep_facts, read_facts
from adjourn.clients.client import ClientContext
from adjourn.errors import InvalidError, NotFoundError
from adjourn.log import kinds
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.task import Task
from adjourn.verification.verify import verify_store
from support.checkpoints import named
from support.kills import Killed
from support.workspace import Workspace

MINUTE = 60


@pytest.fixture(params=["memory", "sqlite"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    workspace = Workspace(tmp_path, monkeypatch, store=request.param)
    yield workspace
    workspace.store.close()


def mark(
    workspace: Workspace,
    name: str = "m",
    group: str = "g1",
    said: AgentReport = NO_REPORT,
    context: ClientContext | None = None,
) -> SavedCheckpoint:
    workspace.clock.move(seconds=MINUTE)
    session = workspace.work(context or workspace.context(group), "file.read")
    return save_checkpoint(session.task, str(workspace.root), CheckpointRequest(name, said=said), session=session)


def archived(workspace: Workspace, task: str) -> archiving.Archived:
    return archive(str(workspace.root), task, "work", workspace.store)


def in_tmp(workspace: Workspace) -> list[str]:
    return sorted(name for name in os.listdir(workspace.root / "tmp") if name != ".gitignore")


# --- archiving


def test_a_chain_is_put_away_with_its_index(workspace: Workspace) -> None:
    """Every page of the task moves, oldest first; the index says where each belongs; nothing stays in tmp/."""
    made = [mark(workspace), mark(workspace), mark(workspace)]
    other = mark(workspace, "o", "g2")
    task = made[0].checkpoint.event.task
    done = archived(workspace, task)
    folder = workspace.root / "output" / "work" / "checkpoints"
    assert sorted(os.listdir(folder)) == [
        "2026-05-02-1531.md",
        "2026-05-02-1532.md",
        "2026-05-02-1533.md",
        "index.jsonl",
    ]
    assert done.moved == ["2026-05-02-1531.md", "2026-05-02-1532.md", "2026-05-02-1533.md"]
    entries = read_index(str(workspace.root), "work")
    assert [entry.id for entry in entries] == [one.checkpoint.hash for one in made]
    assert [entry.parent for entry in entries] == ["", made[0].checkpoint.hash, made[1].checkpoint.hash]
    assert [(entry.used, entry.budget, entry.status) for entry in entries] == [
        (1, 20, "archived"), (2, 20, "archived"), (3, 20, "archived"),
    ]  # fmt: skip
    lines = (folder / "index.jsonl").read_text().splitlines()
    required = {"id", "task", "file", "time", "trigger", "status", "used", "resumedCount"}
    assert all(required <= json.loads(line).keys() for line in lines)
    (left,) = search(str(workspace.root)).pages
    assert left.id == other.checkpoint.hash


def test_archiving_again_changes_nothing(memory_workspace: Workspace) -> None:
    """What was put away is not put away twice; later pages of the task join it."""
    task = mark(memory_workspace).checkpoint.event.task
    archived(memory_workspace, task)
    before = (memory_workspace.root / "output/work/checkpoints/index.jsonl").read_bytes()
    assert archived(memory_workspace, task).moved == []
    assert (memory_workspace.root / "output/work/checkpoints/index.jsonl").read_bytes() == before
    mark(memory_workspace)
    assert archived(memory_workspace, task).moved == ["2026-05-02-1532.md"]
    assert len(read_index(str(memory_workspace.root), "work")) == 2


def test_a_kill_while_archiving_loses_no_page(memory_workspace: Workspace) -> None:
    """Whichever write is the last one: every page is there, and archiving again finishes the work."""
    made = [mark(memory_workspace) for _ in range(4)]
    task = made[0].checkpoint.event.task
    root, ids = str(memory_workspace.root), {each.checkpoint.hash for each in made}
    for step in range(40):
        with pytest.MonkeyPatch.context() as patch:
            steps = _killed_at(patch, step)
            try:
                archived(memory_workspace, task)
            except Killed:
                found = {page.id for place in ("tmp", "output/work/checkpoints") for page in search(root, place).pages}
                assert found == ids
                continue
            assert steps() <= step
            break
    assert in_tmp(memory_workspace) == []
    folder = memory_workspace.root / "output/work/checkpoints"
    assert len([name for name in os.listdir(folder) if name.endswith(".md") and name[0] != "."]) == 4
    assert {entry.id for entry in read_index(root, "work")} == ids


def _killed_at(patch: pytest.MonkeyPatch, step: int) -> Any:
    count = 0
    for name in ("rename", "unlink"):
        real = getattr(os, name)

        def call(*arguments: Any, _real: Any = real, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count - 1 >= step:
                raise Killed
            return _real(*arguments, **options)

        patch.setattr(os, name, call)
    return lambda: count


def test_an_archive_is_restored_and_stays(memory_workspace: Workspace) -> None:
    """Its last page is active again, as it was; the next checkpoint continues from it."""
    mark(memory_workspace)
    task = mark(memory_workspace, said=AgentReport(resumption_point="finish")).checkpoint.event.task
    text = (memory_workspace.root / "tmp" / ACTIVE).read_text()
    archived(memory_workspace, task)
    assert find_active(str(memory_workspace.root)) is None
    assert restore(str(memory_workspace.root), "work") == f"tmp/{ACTIVE}"
    assert (memory_workspace.root / "tmp" / ACTIVE).read_text() == text
    assert len(read_index(str(memory_workspace.root), "work")) == 2
    mark(memory_workspace)
    found = find_active(str(memory_workspace.root))
    assert found is not None
    assert found.page.resumption_point == "finish"
    assert archived(memory_workspace, task).moved == ["2026-05-02-1533.md"]


def test_projects_have_names_of_folders(memory_workspace: Workspace) -> None:
    """The usual one comes from the mission; one that leads elsewhere is refused."""
    mark(memory_workspace, said=AgentReport(mission="Comprehensive security review: of the whole authentication flow!"))
    found = find_active(str(memory_workspace.root))
    assert found is not None
    assert project_of(found) == "comprehensive-security-review-of-the-whole"
    for bad in ("", "..", ".x", "a/b", "x" * 61):
        with pytest.raises(InvalidError):
            archive(str(memory_workspace.root), found.task, bad, memory_workspace.store)
    with pytest.raises(NotFoundError):
        restore(str(memory_workspace.root), "nothing")
    with pytest.raises(NotFoundError, match="has no page"):
        archive(str(memory_workspace.root), "nobody", "work", memory_workspace.store)
    assert projects(str(memory_workspace.root)) == []


def test_the_index_tells_what_came_after(memory_workspace: Workspace) -> None:
    """Resumes with their age, ends of sessions with what was lost, failed destructive steps, and that they were gone back on."""
    (memory_workspace.root / ".aex" / "policy.aex").write_text(
        'policy work v1\ngoal "do it"\nallow *\nbudget calls=50\n'
    )
    context = memory_workspace.context()
    said = AgentReport(progress=(ReportedStep(text="a"),), open_questions=("q?",))
    first = mark(memory_workspace, said=said, context=context)
    session, (admitted,) = context.sessions.admit([ToolRequest(tool="deploy.run", digest="1" * 64)])
    facts = [kinds.ToolSettled(call=admitted.call, outcome="tool-error")]
    session.settle(facts)
    session.checkpoint_after(facts)
    memory_workspace.work(context, "file.read", "file.read")
    session.task.commit(lambda _: [_lost(session.id)])
    memory_workspace.clock.move(seconds=25 * 3600)
    again = memory_workspace.context("g2", task=session.task.id)
    again.sessions.open()
    memory_workspace.work(again, "file.read")
    archived(memory_workspace, session.task.id)
    entries = {entry.trigger: entry for entry in read_index(str(memory_workspace.root), "work")}
    assert list(entries) == ["agent", "before deploy.run: deploy", "failed deploy.run: deploy"]
    assert (entries["agent"].id, entries["agent"].todo, entries["agent"].questions) == (
        first.checkpoint.hash,
        ("a",),
        ("q?",),
    )
    assert entries["before deploy.run: deploy"].failed
    last = entries["failed deploy.run: deploy"]
    assert [(end.reason, end.used, end.lost) for end in last.endings] == [("dead", 4, 2)]
    assert last.resumed_count == 1
    assert last.resumes[0].age > DAY
    assert last.resumes[0].first_action == 1000


def _lost(session: str) -> Any:
    from adjourn.tasks.task import NewEvent  # beside its only use

    return NewEvent(kinds.SessionLost(calls=[], lost=session, reason="dead"))


def test_a_broken_index_is_made_anew(memory_workspace: Workspace) -> None:
    """It is worked out from the pages and the history."""
    task = mark(memory_workspace).checkpoint.event.task
    archived(memory_workspace, task)
    index = memory_workspace.root / "output/work/checkpoints/index.jsonl"
    before = index.read_bytes()
    index.write_text("{")
    with pytest.raises(InvalidError, match="to recreate it"):
        read_index(str(memory_workspace.root), "work")
    archived(memory_workspace, task)
    assert index.read_bytes() == before


# --- pruning


def test_old_checkpoints_go_and_the_history_verifies(workspace: Workspace) -> None:
    """Pages, folders, documents and names of all but the last; no event; the newest can still be resumed."""
    made = [mark(workspace, f"n{number}") for number in range(5)]
    task = made[0].checkpoint.event.task
    events = workspace.entries(task)
    found = plan(workspace.store, str(workspace.root), RetentionRules(keep_last=2), workspace.clock())
    assert [point.name for point in found.points] == ["n0", "n1", "n2"]
    assert (found.kept, found.size > 0) == (2, True)
    assert len(named(workspace.store)) == 5  # planning changes nothing
    blobs = len(list(workspace.store.blobs()))
    prune(workspace.store, str(workspace.root), found)
    assert named(workspace.store) == ["n3", "n4"]
    assert sorted(os.listdir(workspace.root / ".aex" / "checkpoints")) == ["n3", "n4"]
    assert len(search(str(workspace.root)).pages) == 2
    assert len(list(workspace.store.blobs())) == blobs - 3
    assert workspace.entries(task) == events
    assert verify_store(workspace.store).findings == []
    verify(str(workspace.folder("n4")))
    assert plan(workspace.store, str(workspace.root), RetentionRules(keep_last=2), workspace.clock()).points == []
    assert workspace.resume(workspace.context("g2", take_over=True), "n4")["callsUsed"] == 5


def test_a_name_that_stands_for_a_newer_checkpoint_stays(memory_workspace: Workspace) -> None:
    """Older versions of a name lose their documents; the name does not."""
    for _ in range(4):
        mark(memory_workspace, "same")
    prune(
        memory_workspace.store,
        str(memory_workspace.root),
        plan(memory_workspace.store, str(memory_workspace.root), RetentionRules(keep_last=1), memory_workspace.clock()),
    )
    assert named(memory_workspace.store) == ["same"]
    assert verify_store(memory_workspace.store).findings == []


@pytest.mark.parametrize(
    ("rules", "gone"),
    [
        (RetentionRules(keep_last=1), [0, 1, 2, 3, 4]),
        (RetentionRules(keep_last=9), []),
        (RetentionRules(keep_last=1, daily=3), [0, 1, 2, 4]),
        (RetentionRules(keep_last=1, older_than=2 * DAY), [0, 1]),
        (RetentionRules(keep_last=1, max_bytes=10**9), []),
        (RetentionRules(keep_last=1, max_bytes=0), [0, 1, 2, 3, 4]),
        (RetentionRules(keep_last=3, max_bytes=0), [0, 1, 2]),
    ],
)
def test_what_stays(memory_workspace: Workspace, rules: RetentionRules, gone: list[int]) -> None:
    """The last N, the last of each day, what is young enough, what fits; the newest always."""
    for number, days in enumerate((0, 1, 2, 0, 1, 0)):
        memory_workspace.clock.move(seconds=days * 86_400)
        mark(memory_workspace, f"n{number}")
    found = plan(memory_workspace.store, str(memory_workspace.root), rules, memory_workspace.clock())
    assert [point.name for point in found.points] == [f"n{number}" for number in gone]


def test_edited_pages_and_other_tasks_stay(memory_workspace: Workspace) -> None:
    """What a person wrote is not thrown away, and each task keeps its own last ones."""
    mark(memory_workspace, "a")
    path = memory_workspace.root / "tmp" / ACTIVE
    path.write_text(path.read_text().replace("do it", "do that", 1))
    for name in ("b", "c"):
        mark(memory_workspace, name)
    mark(memory_workspace, "other", "g2")
    found = plan(
        memory_workspace.store, str(memory_workspace.root), RetentionRules(keep_last=1), memory_workspace.clock()
    )
    assert [point.name for point in found.points] == ["b"]


def test_pruning_that_was_cut_off_is_finished_by_the_next(memory_workspace: Workspace) -> None:
    """The next prune deletes what an interrupted one left."""
    for number in range(4):
        mark(memory_workspace, f"n{number}")
    rules = RetentionRules(keep_last=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.rmtree", _kill)
        with pytest.raises(Killed):
            prune(
                memory_workspace.store,
                str(memory_workspace.root),
                plan(memory_workspace.store, str(memory_workspace.root), rules, memory_workspace.clock()),
            )
    prune(
        memory_workspace.store,
        str(memory_workspace.root),
        plan(memory_workspace.store, str(memory_workspace.root), rules, memory_workspace.clock()),
    )
    assert len(search(str(memory_workspace.root)).pages) == 1
    assert verify_store(memory_workspace.store).valid
    freed = {
        each.what: each.number
        for each in collect(memory_workspace.store, str(memory_workspace.root), memory_workspace.clock())
    }
    assert freed["notes on folders"] >= 0


def _kill(*_: object, **__: object) -> None:
    raise Killed


# --- freeing


def test_nothing_that_is_needed_is_freed(workspace: Workspace) -> None:
    """All that was written is mentioned somewhere."""
    task = mark(workspace).checkpoint.event.task
    workspace.leave(workspace.context(task=task))
    assert all(freed.number == 0 for freed in collect(workspace.store, str(workspace.root), workspace.clock()))
    assert verify_store(workspace.store).findings == []


def test_what_nothing_mentions_is_freed(workspace: Workspace) -> None:
    """Documents, expired leases, caches of tasks that are gone, files of writes that were killed; and it is said how much."""
    context = workspace.context()
    mark(workspace)
    for session in context.sessions:
        session.close("eof")
    workspace.clock.move(seconds=3 * 86_400)
    workspace.store.put_blob(b"x" * 1000)
    workspace.store.swap("fold/gone", "x", expect=None)
    left = workspace.root / "tmp" / f".{ACTIVE}.123.0a1b2c3d"
    young = workspace.root / "tmp" / f".{ACTIVE}.124.0a1b2c3d"
    for path in (left, young):
        path.write_text("half")
    os.utime(left, (time.time() - 7200,) * 2)
    freed = {
        each.what: (each.number, each.size) for each in collect(workspace.store, str(workspace.root), workspace.clock())
    }
    assert freed["documents"] == (1, 1000)
    assert freed["temporary files"] == (1, 4)
    assert freed["expired leases"][0] >= 1
    assert freed["old caches"] == (1, 10)
    assert (left.exists(), young.exists()) == (False, True)
    assert verify_store(workspace.store).findings == []


def test_documents_are_left_alone_while_a_session_is_open(memory_workspace: Workspace) -> None:
    """No document is deleted while a session is open, because the session may be about to reference it."""
    mark(memory_workspace)
    digest = memory_workspace.store.put_blob(b"about to be used")
    told = [each.what for each in collect(memory_workspace.store, str(memory_workspace.root), memory_workspace.clock())]
    assert any("not looked at" in what for what in told)
    assert memory_workspace.store.get_blob(digest) is not None


def test_long_histories_of_one_task_are_one_file(memory_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a bound the folders share the longest history, and each still verifies; another task's, and a changed one, do not."""
    for name in ("a", "b", "c"):
        mark(memory_workspace, name)
    mark(memory_workspace, "other", "g2")
    shutil.copytree(memory_workspace.folder("a"), memory_workspace.folder("spoilt"))
    audit = memory_workspace.folder("spoilt") / "audit.jsonl"
    audit.write_bytes(audit.read_bytes().replace(b'"seq":3', b'"seq":4'))
    assert share_histories(str(memory_workspace.root)).number == 0
    freed = share_histories(str(memory_workspace.root), limit=0)
    assert freed.number == 2
    inodes = {
        name: (memory_workspace.folder(name) / "audit.jsonl").stat().st_ino
        for name in ("a", "b", "c", "other", "spoilt")
    }
    assert inodes["a"] == inodes["b"] == inodes["c"]
    assert len(set(inodes.values())) == 3
    for name in ("a", "b", "c", "other"):
        assert verify(str(memory_workspace.folder(name))).checkpoint.data.name == name
    assert share_histories(str(memory_workspace.root), limit=0).number == 0
    monkeypatch.setattr(histories, "SHARE_BYTES", 0)
    assert mark(memory_workspace, "d").folder


def test_without_a_store_only_files_are_freed(tmp_path: Path) -> None:
    """A workspace without a history has nothing else."""
    assert sum(each.number for each in collect(None, str(tmp_path), 0)) == 0


def test_a_cache_of_a_task_that_rests_is_freed(memory_workspace: Workspace) -> None:
    """It is made again when the task is opened again."""
    task = mark(memory_workspace).checkpoint.event.task
    memory_workspace.clock.move(seconds=40 * 86_400)
    ledger = Task(memory_workspace.store, task, clock=memory_workspace.clock, secret=b"x" * 32).ledger
    freed = {
        each.what: each.number
        for each in collect(memory_workspace.store, str(memory_workspace.root), memory_workspace.clock())
    }
    assert freed["old caches"] == 1
    assert Task(memory_workspace.store, task, clock=memory_workspace.clock, secret=b"x" * 32).ledger == ledger


def test_what_a_hook_kept_to_read_on_is_freed_of_a_task_that_rests(memory_workspace: Workspace) -> None:
    """What its page says stays, and all of a task that is about to start."""
    store, clock = memory_workspace.store, memory_workspace.clock
    task = mark(memory_workspace).checkpoint.event.task
    facts = TranscriptFacts(report=AgentReport(mission="Bake."), story=msgspec.Raw(b'{"client":"claude"}'))
    for name in (task, "starting"):
        keep_facts(store, name, facts)
    collect(store, str(memory_workspace.root), clock())
    assert read_facts(store, task) == facts
    clock.move(seconds=40 * 86_400)
    collect(store, str(memory_workspace.root), clock())
    assert read_facts(store, task) == msgspec.structs.replace(facts, story=NO_FACTS.story)
    assert read_facts(store, "starting") == facts


# --- what is not ours


def test_a_folder_from_elsewhere_is_not_removed(workspace: Workspace) -> None:
    """A checkpoint that came by git under the same name stays when the one of this store goes."""
    context = workspace.context()
    for name in ("old", "new"):
        session = workspace.work(context, "file.read")
        save_checkpoint(session.task, str(workspace.root), CheckpointRequest(name), session=session)
    theirs = workspace.folder("old") / "checkpoint.json"
    theirs.write_text(theirs.read_text() + "\n")
    root = str(workspace.root)
    prune(workspace.store, root, plan(workspace.store, root, RetentionRules(keep_last=1), workspace.clock()))
    assert theirs.exists()


def test_nothing_is_freed_behind_a_link(tmp_path: Path) -> None:
    """A link in the workspace leads nobody to files outside of it."""
    root, away = tmp_path / "w", tmp_path / "away"
    (root / "output" / "project").mkdir(parents=True)
    away.mkdir()
    old = away / ".x.1.00000000"
    old.write_text("not ours")
    os.utime(old, (1, 1))
    (root / "output" / "project" / "checkpoints").symlink_to(away)
    (root / "tmp").symlink_to(away)
    collect(None, str(root), 0)
    assert old.exists()


def test_the_memory_keeps_its_permissions_and_its_other_lines(tmp_path: Path) -> None:
    """What only its owner may read stays so; so do the ends of lines, whatever wrote them."""
    memory = tmp_path / "memory" / "MEMORY.md"
    memory.parent.mkdir()
    theirs = "# Mine\r\n\x0bone\u2028line\r\n\n"
    memory.write_bytes(theirs.encode())
    memory.chmod(0o600)
    nothing = Reflection([], [], [])
    assert not remember(str(tmp_path), nothing)
    assert memory.read_bytes() == theirs.encode()
    heuristic = Statistic(name="age", title="Age", n=5, value="", heuristic="never later", evidence=("t",))
    assert remember(str(tmp_path), nothing._replace(statistics=[heuristic]))
    assert memory.read_bytes().startswith(theirs.encode())
    assert b"never later" in memory.read_bytes()
    assert memory.stat().st_mode & 0o777 == 0o600
