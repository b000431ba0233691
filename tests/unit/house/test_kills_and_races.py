"""Checkpoints and pages whose writing is cut off before each step, or done by two processes at once: nothing is lost, half there, or done twice."""

from __future__ import annotations

import os
import shutil
import threading
from inspect import unwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from adjourn.checkpoints import folder as histories
from adjourn.checkpoints import folder_verification, page_archive, page_writer, pruning, reflect
from adjourn.checkpoints.checkpoint import create, find
from adjourn.checkpoints.page_files import ACTIVE, find_active, search
from adjourn.checkpoints.pruning import RetentionRules, plan, prune
from adjourn.checkpoints.save import CheckpointRequest, save_checkpoint
from adjourn.cli import export as exporting
from adjourn.errors import RefusedError, StoreError
from adjourn.handover import importing
from adjourn.handover.importing import import_folder, import_newer_folders, locate
from adjourn.host import keys
from adjourn.knowledge.records.agent_notes import AgentNote, NotedDecision, add
from adjourn.store.memory import MemoryStore
from adjourn.tasks.decision import Forward, RecordedAnswer
from adjourn.tasks.lease import SessionIdentity
from adjourn.tasks.session import Session
from adjourn.tasks.task import Task
from support.checkpoints import HERE, mark
from support.kills import Kill, Killed
from support.payments import PAYMENTS_POLICY, finish, pay
from support.task_sessions import admit_one
from support.workspace import Workspace


class DyingStore(MemoryStore):
    """A store whose process is killed before the n-th thing that it is to write."""

    left = 1_000_000

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def append(self, *args: Any, **options: Any) -> Any:
        self._step()
        return super().append(*args, **options)

    def swap(self, *args: Any, **options: Any) -> None:
        self._step()
        super().swap(*args, **options)

    def put_blob(self, data: bytes) -> str:
        self._step()
        return super().put_blob(data)


# --- taking a folder in


def paid_for(workspace: Workspace) -> tuple[Session, folder_verification.VerifiedFolder]:
    """A task in which an invoice was paid, and the folder of its checkpoint."""
    task = Task(workspace.store, "t1", clock=workspace.clock, secret=keys.secret())
    session = Session(task, PAYMENTS_POLICY, SessionIdentity(HERE, "g1"))
    session.open()
    finish(session, admit_one(session, pay()))
    add(session, AgentNote(facts=("it is paid once",), decisions=(NotedDecision(decision="pay"),)))
    made = save_checkpoint(task, str(workspace.root), CheckpointRequest("paid"), session=session)
    assert made.folder
    return session, folder_verification.verify(str(workspace.folder("paid")))


def decided_elsewhere(workspace: Workspace, store: MemoryStore) -> object:
    """What is said in another store when the invoice is to be paid again."""
    session = Session(
        Task(store, "t1", clock=workspace.clock, secret=keys.secret()), PAYMENTS_POLICY, SessionIdentity(HERE, "g1")
    )
    session.open()
    return admit_one(session, pay()).decision


def test_a_kill_while_a_folder_is_taken_in_repeats_no_effect(
    memory_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever write was the last one: the next look takes in what is missing, with what it claims and what was known."""
    monkeypatch.setattr(importing, "_CHUNK", 2)
    _, verified = paid_for(memory_workspace)
    assert verified.known.record
    for step in range(100):
        store = DyingStore()
        store.left = step
        try:
            import_folder(store, verified)
        except Killed:
            pass
        else:
            assert step > 3
            return
        store.left = 1_000_000
        import_newer_folders(store, str(memory_workspace.root), verified.checkpoint)
        assert find(store, "paid") == verified.checkpoint
        assert store.ref("record/t1")
        assert not isinstance(decided_elsewhere(memory_workspace, store), Forward)
    raise AssertionError("it never ends")


def test_an_older_folder_gives_no_claim_up(memory_workspace: Workspace) -> None:
    """A folder of before an effect, checked out from version control, does not make the effect possible again."""
    task = Task(memory_workspace.store, "t1", clock=memory_workspace.clock, secret=keys.secret())
    session = Session(task, PAYMENTS_POLICY, SessionIdentity(HERE, "g1"))
    session.open()
    finish(session, admit_one(session, pay()), "error")
    save_checkpoint(task, str(memory_workspace.root), CheckpointRequest("work"), session=session)
    shutil.copytree(memory_workspace.folder("work"), memory_workspace.root / "old")
    finish(session, admit_one(session, pay()))
    save_checkpoint(task, str(memory_workspace.root), CheckpointRequest("work"), session=session)
    before = memory_workspace.store.refs("once/")
    shutil.copytree(memory_workspace.root / "old", memory_workspace.folder("work"), dirs_exist_ok=True)
    assert locate(memory_workspace.store, str(memory_workspace.root), "work")[1] == "folder"
    assert memory_workspace.store.refs("once/") == before
    assert isinstance(admit_one(session, pay()).decision, RecordedAnswer)


def test_taking_in_a_history_waits_for_its_writer(memory_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that continues with the task meanwhile is no reason to refuse the folder."""
    session, verified = paid_for(memory_workspace)
    memory_workspace.store.swap("checkpoint/paid", None, expect=memory_workspace.store.ref("checkpoint/paid"))
    real, busy = memory_workspace.store.append, iter([True, False])

    def append(stream: str, entries: Any, **options: Any) -> Any:
        if not entries and next(busy):
            monkeypatch.setattr(memory_workspace.store, "append", real)
            admit_one(session, pay("B-8"))
            monkeypatch.setattr(memory_workspace.store, "append", append)
        return real(stream, entries, **options)

    monkeypatch.setattr(memory_workspace.store, "append", append)
    import_folder(memory_workspace.store, verified)
    assert find(memory_workspace.store, "paid") == verified.checkpoint


# --- letting go, and freeing


def test_a_kill_while_pruning_leaves_no_folder_that_does_not_hold(memory_workspace: Workspace) -> None:
    """Killed before any step: each folder verifies, or has no checkpoint.json; and the next run ends it."""
    rules = RetentionRules(keep_last=1)
    for step in range(200):
        names = [mark(memory_workspace, f"n{step}-{number}").checkpoint.data.name for number in range(2)]
        found = plan(memory_workspace.store, str(memory_workspace.root), rules, memory_workspace.clock())
        with pytest.MonkeyPatch.context() as patch:
            kill = Kill(patch, step)
            try:
                prune(memory_workspace.store, str(memory_workspace.root), found)
            except Killed:
                pass
            else:
                if kill.left > 0:
                    return
        for name in names:
            if (memory_workspace.folder(name) / "checkpoint.json").exists():
                assert folder_verification.verify(str(memory_workspace.folder(name))).checkpoint.data.name == name
        prune(
            memory_workspace.store,
            str(memory_workspace.root),
            plan(memory_workspace.store, str(memory_workspace.root), rules, memory_workspace.clock()),
        )
        assert not memory_workspace.folder(names[0]).exists()
    raise AssertionError("it never ends")


def test_a_checkpoint_made_anew_after_planning_keeps_its_folder(memory_workspace: Workspace) -> None:
    """What the name stands for by now was not agreed to."""
    for name in ("a", "b"):
        mark(memory_workspace, name)
    found = plan(
        memory_workspace.store, str(memory_workspace.root), RetentionRules(keep_last=1), memory_workspace.clock()
    )
    new = mark(memory_workspace, "a").checkpoint
    prune(memory_workspace.store, str(memory_workspace.root), found)
    assert find(memory_workspace.store, "a") == new
    assert folder_verification.verify(str(memory_workspace.folder("a"))).checkpoint == new
    assert memory_workspace.store.ref("folder/a")


def test_a_page_that_is_edited_after_planning_stays(memory_workspace: Workspace) -> None:
    """Pruning keeps a page that was edited after the plan was made."""
    for name in ("a", "b", "c"):
        mark(memory_workspace, name)
    found = plan(
        memory_workspace.store, str(memory_workspace.root), RetentionRules(keep_last=1), memory_workspace.clock()
    )
    page = next(point.page for point in found.points if point.page)
    path = memory_workspace.root / page.path
    path.write_text(path.read_text().replace("do it", "do that", 1))
    prune(memory_workspace.store, str(memory_workspace.root), found)
    assert "do that" in path.read_text()
    assert len(search(str(memory_workspace.root)).pages) == 2


@pytest.mark.parametrize("changed", ["short", "long"])
def test_histories_are_not_shared_over_what_was_written_meanwhile(
    memory_workspace: Workspace, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """A process that writes one of the two folders while they are compared keeps what it wrote."""
    for name in ("short", "long"):
        mark(memory_workspace, name)
    real = histories._begins

    def meanwhile(*args: Any) -> bool:
        found = real(*args)
        monkeypatch.setattr(histories, "_begins", real)
        mark(memory_workspace, changed, "g1" if changed == "short" else "g2")
        return found

    monkeypatch.setattr(histories, "_begins", meanwhile)
    histories.share_histories(str(memory_workspace.root), limit=0)
    for name in ("short", "long"):
        assert folder_verification.verify(str(memory_workspace.folder(name))).checkpoint == find(
            memory_workspace.store, name
        )
    assert not [name for _, _, names in os.walk(memory_workspace.root) for name in names if name.startswith(".audit")]


def test_a_document_that_is_named_while_it_is_looked_for_stays(
    memory_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import that a kill has cut off is done again while documents are freed: what it names is not freed."""
    _, verified = paid_for(memory_workspace)
    store = MemoryStore()
    document = store.put_blob(memory_workspace.store.get_blob(verified.checkpoint.data.document) or b"")
    real = pruning._texts

    def texts(looked_at: Any) -> Any:
        yield from list(real(looked_at))
        monkeypatch.setattr(pruning, "_texts", real)
        import_folder(store, verified)

    monkeypatch.setattr(pruning, "_texts", texts)
    memory_workspace.clock.move(seconds=100_000)
    pruning.collect(store, str(memory_workspace.root), memory_workspace.clock())
    assert store.get_blob(document) is not None


@pytest.mark.parametrize("place", [".aex", ".aex/undo/1", ".code-intel", ".code-intel/sessions", "tmp"])
def test_what_a_cut_off_write_left_is_freed(tmp_path: Path, place: str) -> None:
    """Wherever adjourn writes files of its own, old temporaries go, and younger ones and others stay."""
    folder = tmp_path / place
    folder.mkdir(parents=True)
    for name in (".a.json.12.0123abcd", ".0123456789abcdef.new", "..0123456789abcdef.new.12.0123abcd", "b.json"):
        (folder / name).write_text("x")
        os.utime(folder / name, (1, 1))
    (folder / ".a.json.13.0123abcd").write_text("x")
    pruning.collect(None, str(tmp_path), 0)
    assert sorted(os.listdir(folder))[-2:] == [".a.json.13.0123abcd", "b.json"]
    assert len(list(folder.iterdir())) == 2


def test_the_next_checkpoint_removes_what_a_killed_one_left(memory_workspace: Workspace) -> None:
    """A folder that may be committed keeps no temporary file for long."""
    mark(memory_workspace, "a")
    left = memory_workspace.folder("a") / ".audit.jsonl.12.0123abcd"
    left.write_text("x")
    mark(memory_workspace, "a")
    assert left.exists()  # its process may be at work
    os.utime(left, (1, 1))
    mark(memory_workspace, "a")
    assert not left.exists()


# --- pages and archives


def test_an_archive_and_a_reflection_at_once_lose_no_line(
    memory_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index has every page that is archived, and what was reflected on is marked."""
    first = mark(memory_workspace).checkpoint
    task = first.event.task
    page_archive.archive(str(memory_workspace.root), task, "work", memory_workspace.store)
    second = mark(memory_workspace).checkpoint
    real = page_archive.read_index
    threads: list[threading.Thread] = []

    def meanwhile(root: str, project: str) -> Any:
        found = real(root, project)
        if not threads:
            threads.append(
                threading.Thread(target=page_archive.archive, args=(root, task, "work", memory_workspace.store))
            )
            threads[0].start()
            threads[0].join(1)
        return found

    found = reflect.reflect(str(memory_workspace.root))
    monkeypatch.setattr(reflect, "read_index", meanwhile)
    reflect.remember(str(memory_workspace.root), found)
    threads[0].join()
    entries = {entry.id: entry.status for entry in real(str(memory_workspace.root), "work")}
    assert entries.keys() == {first.hash, second.hash}
    assert entries[first.hash] == "reflected"


@pytest.mark.parametrize("links", [True, False])
def test_a_kill_while_the_plain_name_changes_hands_loses_no_page(memory_workspace: Workspace, links: bool) -> None:
    """Before each step, on a file system with links or without: the page of the task that rests can be found."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    mark(memory_workspace, "a", "g1")
    other = find(memory_workspace.store, "a").event.task
    memory_workspace.leave(memory_workspace.context("g1"))
    memory_workspace.clock.move(seconds=3600)
    before = {path.name: path.read_bytes() for path in (memory_workspace.root / "tmp").iterdir()}
    mark(memory_workspace, "b", "g2")
    task = find(memory_workspace.store, "b").event.task
    made = find(memory_workspace.store, "b")
    for step in range(100):
        for path in (memory_workspace.root / "tmp").iterdir():
            path.unlink()
        for name, data in before.items():
            (memory_workspace.root / "tmp" / name).write_bytes(data)
        with pytest.MonkeyPatch.context() as patch:
            if not links:
                patch.setattr(os, "link", refuse)
            kill = Kill(patch, step)
            try:
                page_writer.write(memory_workspace.task(task), made, str(memory_workspace.root))
            except Killed:
                pass
            else:
                if kill.left > 0:
                    return
        found = find_active(str(memory_workspace.root), other)
        assert found is not None
        assert found.task == other
    raise AssertionError("it never ends")


def test_a_folder_that_cannot_be_written_costs_the_page_and_not_the_checkpoint(
    memory_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint is made although its page cannot be written, also where another task's page must move."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    mark(memory_workspace, "a", "g1")
    memory_workspace.clock.move(seconds=3600)
    session = memory_workspace.work(memory_workspace.context("g2"), "file.read")
    made = create(session.task, "b", session=session)
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(StoreError, match=r"cannot write the page .*Read-only file system"):
        page_writer.write(session.task, made, str(memory_workspace.root))
    assert (memory_workspace.root / "tmp" / ACTIVE).exists()


# --- a folder elsewhere


def test_a_folder_that_is_sent_can_be_written_again(memory_workspace: Workspace, tmp_path: Path) -> None:
    """With what was known beside it, and after a kill at whatever step; but nothing is written among other files."""
    _, verified = paid_for(memory_workspace)
    assert verified.known.record
    memory_workspace.patch.chdir(memory_workspace.root)
    given: Any = {
        "context": SimpleNamespace(store=memory_workspace.store, root=str(memory_workspace.root)),
        "as_json": True,
    }
    assert exporting.export.callback is not None
    export = unwrap(exporting.export.callback)
    target = tmp_path / "sent"
    for step in range(0, 100, 5):
        with pytest.MonkeyPatch.context() as patch:
            kill = Kill(patch, step)
            try:
                export(name="paid", target=str(target), **given)
            except Killed:
                pass
            else:
                if kill.left > 0:
                    break
    export(name="paid", target=str(target), **given)
    assert folder_verification.verify(str(target)).checkpoint == verified.checkpoint
    (target / "mine").write_text("x")
    with pytest.raises(RefusedError, match="other files"):
        export(name="paid", target=str(target), **given)
