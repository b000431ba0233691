"""Finished work put away and brought back, old checkpoints let go, needless things freed: never a page lost, nor the history."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from adjourn.checkpoints import histories
from adjourn.checkpoints import page_archive as archiving
from adjourn.checkpoints.builder import NOTHING_SAID, Said, Step
from adjourn.checkpoints.checkpoint import names
from adjourn.checkpoints.folder_verification import verify
from adjourn.checkpoints.histories import share_histories
from adjourn.checkpoints.page_archive import archive, project_of, projects, read_index, restore
from adjourn.checkpoints.page_files import ACTIVE, find_active, search
from adjourn.checkpoints.reflect import Reflection, remember
from adjourn.checkpoints.reflection import Statistic
from adjourn.checkpoints.save import Made, make
from adjourn.checkpoints.triggers import settled
from adjourn.clients.client import Desk
from adjourn.errors import InvalidError, NotFoundError
from adjourn.log import kinds
from adjourn.retention.gc import collect
from adjourn.retention.prune import DAY, Rules, plan, prune
from adjourn.tasks.decision import Call
from adjourn.tasks.task import Task
from adjourn.verification.verify import verify_store
from unit.checkpoints.test_checkpoint import Machine

MINUTE = 60


@pytest.fixture(params=["memory", "sqlite"])
def machine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    machine = Machine(tmp_path, monkeypatch, store=request.param)
    monkeypatch.setattr("adjourn.host.clock.now", machine.clock)
    yield machine
    machine.store.close()


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path, monkeypatch)
    monkeypatch.setattr("adjourn.host.clock.now", machine.clock)
    return machine


def mark(
    machine: Machine,
    name: str = "m",
    group: str = "g1",
    said: Said = NOTHING_SAID,
    desk: Desk | None = None,
) -> Made:
    machine.clock.move(seconds=MINUTE)
    session = machine.work(desk or machine.desk(group), "file.read")
    return make(session.task, str(machine.root), name, budget=20, said=said, sitting=session)


def archived(machine: Machine, task: str) -> archiving.Archived:
    return archive(str(machine.root), task, "work", machine.store)


def in_tmp(machine: Machine) -> list[str]:
    return sorted(name for name in os.listdir(machine.root / "tmp") if name != ".gitignore")


# --- archiving


def test_a_chain_is_put_away_with_its_index(machine: Machine) -> None:
    """Every page of the task moves, oldest first; the index says where each belongs; nothing stays in tmp/."""
    made = [mark(machine), mark(machine), mark(machine)]
    other = mark(machine, "o", "g2")
    task = made[0].checkpoint.event.task
    done = archived(machine, task)
    folder = machine.root / "output" / "work" / "checkpoints"
    assert sorted(os.listdir(folder)) == [
        "2026-05-02-1531.md",
        "2026-05-02-1532.md",
        "2026-05-02-1533.md",
        "index.jsonl",
    ]
    assert done.moved == ["2026-05-02-1531.md", "2026-05-02-1532.md", "2026-05-02-1533.md"]
    entries = read_index(str(machine.root), "work")
    assert [entry.id for entry in entries] == [one.checkpoint.hash for one in made]
    assert [entry.parent for entry in entries] == ["", made[0].checkpoint.hash, made[1].checkpoint.hash]
    assert [(entry.used, entry.budget, entry.status) for entry in entries] == [
        (1, 20, "archived"), (2, 20, "archived"), (3, 20, "archived"),
    ]  # fmt: skip
    lines = (folder / "index.jsonl").read_text().splitlines()
    required = {"id", "task", "file", "time", "trigger", "status", "used", "resumedCount"}
    assert all(required <= json.loads(line).keys() for line in lines)
    (left,) = search(str(machine.root)).pages
    assert left.id == other.checkpoint.hash


def test_archiving_again_changes_nothing(one: Machine) -> None:
    """What was put away is not put away twice; later pages of the task join it."""
    task = mark(one).checkpoint.event.task
    archived(one, task)
    before = (one.root / "output/work/checkpoints/index.jsonl").read_bytes()
    assert archived(one, task).moved == []
    assert (one.root / "output/work/checkpoints/index.jsonl").read_bytes() == before
    mark(one)
    assert archived(one, task).moved == ["2026-05-02-1532.md"]
    assert len(read_index(str(one.root), "work")) == 2


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


def test_a_kill_while_archiving_loses_no_page(one: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever write is the last one: every page is there, and archiving again finishes the work."""
    made = [mark(one) for _ in range(4)]
    task = made[0].checkpoint.event.task
    root, ids = str(one.root), {each.checkpoint.hash for each in made}
    for step in range(40):
        with pytest.MonkeyPatch.context() as patch:
            steps = _killed_at(patch, step)
            try:
                archived(one, task)
            except Killed:
                found = {
                    page.id
                    for place in ("tmp", "output/work/checkpoints")
                    for page in search(root, place).pages
                }
                assert found == ids
                continue
            assert steps() <= step
            break
    assert in_tmp(one) == []
    folder = one.root / "output/work/checkpoints"
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


def test_an_archive_is_restored_and_stays(one: Machine) -> None:
    """Its last page is active again, as it was; the next checkpoint goes on from it."""
    mark(one)
    task = mark(one, said=Said(resumption_point="finish")).checkpoint.event.task
    text = (one.root / "tmp" / ACTIVE).read_text()
    archived(one, task)
    assert find_active(str(one.root)) is None
    assert restore(str(one.root), "work") == f"tmp/{ACTIVE}"
    assert (one.root / "tmp" / ACTIVE).read_text() == text
    assert len(read_index(str(one.root), "work")) == 2
    mark(one)
    found = find_active(str(one.root))
    assert found is not None
    assert found.page.resumption_point == "finish"
    assert archived(one, task).moved == ["2026-05-02-1533.md"]


def test_projects_have_names_of_folders(one: Machine) -> None:
    """The usual one comes from the mission; one that leads elsewhere is refused."""
    mark(one, said=Said(mission="Comprehensive security review: of the whole authentication flow!"))
    found = find_active(str(one.root))
    assert found is not None
    assert project_of(found) == "comprehensive-security-review-of-the-whole"
    for bad in ("", "..", ".x", "a/b", "x" * 61):
        with pytest.raises(InvalidError):
            archive(str(one.root), found.task, bad, one.store)
    with pytest.raises(NotFoundError):
        restore(str(one.root), "nothing")
    with pytest.raises(NotFoundError, match="has no page"):
        archive(str(one.root), "nobody", "work", one.store)
    assert projects(str(one.root)) == []


def test_the_index_tells_what_came_after(one: Machine) -> None:
    """Resumes with their age, ends of sessions with what was lost, failed destructive steps, and that they were gone back on."""
    (one.root / ".aex" / "policy.aex").write_text('policy work v1\ngoal "do it"\nallow *\nbudget calls=50\n')
    desk = one.desk()
    said = Said(progress=(Step(text="a"),), open_questions=("q?",))
    first = mark(one, said=said, desk=desk)
    session, (admitted,) = desk.admit([Call(tool="deploy.run", digest="1" * 64)])
    facts = [kinds.ToolSettled(call=admitted.call, outcome="tool-error")]
    session.settle(facts)
    settled(session, facts)
    one.work(desk, "file.read", "file.read")
    session.task.commit(lambda _: [_lost(session.id)])
    one.clock.move(seconds=25 * 3600)
    again = one.desk("g2", task=session.task.id)
    again.session()
    one.work(again, "file.read")
    archived(one, session.task.id)
    entries = {entry.trigger: entry for entry in read_index(str(one.root), "work")}
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
    from adjourn.tasks.task import Fact  # noqa: PLC0415  # beside its only use

    return Fact(kinds.SessionLost(calls=[], lost=session, reason="dead"))


def test_a_broken_index_is_made_anew(one: Machine) -> None:
    """It is worked out from the pages and the history."""
    task = mark(one).checkpoint.event.task
    archived(one, task)
    index = one.root / "output/work/checkpoints/index.jsonl"
    before = index.read_bytes()
    index.write_text("{")
    with pytest.raises(InvalidError, match="made anew"):
        read_index(str(one.root), "work")
    archived(one, task)
    assert index.read_bytes() == before


# --- pruning


def test_old_checkpoints_go_and_the_history_verifies(machine: Machine) -> None:
    """Pages, folders, documents and names of all but the last; no event; the newest can still be resumed."""
    made = [mark(machine, f"n{number}") for number in range(5)]
    task = made[0].checkpoint.event.task
    events = machine.entries(task)
    found = plan(machine.store, str(machine.root), Rules(keep_last=2), machine.clock())
    assert [point.name for point in found.points] == ["n0", "n1", "n2"]
    assert (found.kept, found.size > 0) == (2, True)
    assert len(names(machine.store)) == 5  # planning changes nothing
    blobs = len(list(machine.store.blobs()))
    prune(machine.store, str(machine.root), found)
    assert sorted(names(machine.store)) == ["n3", "n4"]
    assert sorted(os.listdir(machine.root / ".aex" / "checkpoints")) == ["n3", "n4"]
    assert len(search(str(machine.root)).pages) == 2
    assert len(list(machine.store.blobs())) == blobs - 3
    assert machine.entries(task) == events
    assert verify_store(machine.store).findings == []
    verify(str(machine.folder("n4")))
    assert plan(machine.store, str(machine.root), Rules(keep_last=2), machine.clock()).points == []
    assert machine.resume(machine.desk("g2", take_over=True), "n4")["callsUsed"] == 5


def test_a_name_that_stands_for_a_newer_checkpoint_stays(one: Machine) -> None:
    """Older versions of a name lose their documents; the name does not."""
    for _ in range(4):
        mark(one, "same")
    prune(one.store, str(one.root), plan(one.store, str(one.root), Rules(keep_last=1), one.clock()))
    assert list(names(one.store)) == ["same"]
    assert verify_store(one.store).findings == []


@pytest.mark.parametrize(
    ("rules", "gone"),
    [
        (Rules(keep_last=1), [0, 1, 2, 3, 4]),
        (Rules(keep_last=9), []),
        (Rules(keep_last=1, daily=3), [0, 1, 2, 4]),
        (Rules(keep_last=1, older_than=2 * DAY), [0, 1]),
        (Rules(keep_last=1, max_bytes=10**9), []),
        (Rules(keep_last=1, max_bytes=0), [0, 1, 2, 3, 4]),
        (Rules(keep_last=3, max_bytes=0), [0, 1, 2]),
    ],
)
def test_what_stays(one: Machine, rules: Rules, gone: list[int]) -> None:
    """The last N, the last of each day, what is young enough, what fits; the newest always."""
    for number, days in enumerate((0, 1, 2, 0, 1, 0)):
        one.clock.move(seconds=days * 86_400)
        mark(one, f"n{number}")
    found = plan(one.store, str(one.root), rules, one.clock())
    assert [point.name for point in found.points] == [f"n{number}" for number in gone]


def test_edited_pages_and_other_tasks_stay(one: Machine) -> None:
    """What a person wrote is not thrown away, and each task keeps its own last ones."""
    mark(one, "a")
    path = one.root / "tmp" / ACTIVE
    path.write_text(path.read_text().replace("do it", "do that", 1))
    for name in ("b", "c"):
        mark(one, name)
    mark(one, "other", "g2")
    found = plan(one.store, str(one.root), Rules(keep_last=1), one.clock())
    assert [point.name for point in found.points] == ["b"]


def test_pruning_that_was_cut_off_is_finished_by_the_next(
    one: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left over is found again."""
    for number in range(4):
        mark(one, f"n{number}")
    rules = Rules(keep_last=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.rmtree", _kill)
        with pytest.raises(Killed):
            prune(one.store, str(one.root), plan(one.store, str(one.root), rules, one.clock()))
    prune(one.store, str(one.root), plan(one.store, str(one.root), rules, one.clock()))
    assert len(search(str(one.root)).pages) == 1
    assert verify_store(one.store).valid
    freed = {each.what: each.number for each in collect(one.store, str(one.root), one.clock())}
    assert freed["notes on folders"] >= 0


def _kill(*_: object, **__: object) -> None:
    raise Killed


# --- freeing


def test_nothing_that_is_needed_is_freed(machine: Machine) -> None:
    """All that was written is mentioned somewhere."""
    task = mark(machine).checkpoint.event.task
    machine.leave(machine.desk(task=task))
    assert all(freed.number == 0 for freed in collect(machine.store, str(machine.root), machine.clock()))
    assert verify_store(machine.store).findings == []


def test_what_nothing_mentions_is_freed(machine: Machine) -> None:
    """Documents, expired leases, caches of tasks that are gone, files of writes that were killed; and it is said how much."""
    desk = machine.desk()
    mark(machine)
    for session in desk.sessions:
        session.close("eof")
    machine.clock.move(seconds=3 * 86_400)
    machine.store.put_blob(b"x" * 1000)
    machine.store.swap("fold/gone", "x", expect=None)
    left = machine.root / "tmp" / f".{ACTIVE}.123.0a1b2c3d"
    young = machine.root / "tmp" / f".{ACTIVE}.124.0a1b2c3d"
    for path in (left, young):
        path.write_text("half")
    os.utime(left, (time.time() - 7200,) * 2)
    freed = {
        each.what: (each.number, each.size)
        for each in collect(machine.store, str(machine.root), machine.clock())
    }
    assert freed["documents"] == (1, 1000)
    assert freed["temporary files"] == (1, 4)
    assert freed["expired leases"][0] >= 1
    assert freed["old caches"] == (1, 10)
    assert (left.exists(), young.exists()) == (False, True)
    assert verify_store(machine.store).findings == []


def test_documents_are_left_alone_while_a_session_is_open(one: Machine) -> None:
    """It may be about to mention one."""
    mark(one)
    digest = one.store.put_blob(b"about to be used")
    told = [each.what for each in collect(one.store, str(one.root), one.clock())]
    assert any("not looked at" in what for what in told)
    assert one.store.get_blob(digest) is not None


def test_long_histories_of_one_task_are_one_file(one: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a bound the folders share the longest history, and each still verifies; another task's, and a changed one, do not."""
    for name in ("a", "b", "c"):
        mark(one, name)
    mark(one, "other", "g2")
    shutil.copytree(one.folder("a"), one.folder("spoilt"))
    audit = one.folder("spoilt") / "audit.jsonl"
    audit.write_bytes(audit.read_bytes().replace(b'"seq":3', b'"seq":4'))
    assert share_histories(str(one.root)).number == 0
    freed = share_histories(str(one.root), limit=0)
    assert freed.number == 2
    inodes = {
        name: (one.folder(name) / "audit.jsonl").stat().st_ino for name in ("a", "b", "c", "other", "spoilt")
    }
    assert inodes["a"] == inodes["b"] == inodes["c"]
    assert len(set(inodes.values())) == 3
    for name in ("a", "b", "c", "other"):
        assert verify(str(one.folder(name))).checkpoint.data.name == name
    assert share_histories(str(one.root), limit=0).number == 0
    monkeypatch.setattr(histories, "SHARE_BYTES", 0)
    assert mark(one, "d").folder


def test_without_a_store_only_files_are_freed(tmp_path: Path) -> None:
    """A workspace without a history has nothing else."""
    assert sum(each.number for each in collect(None, str(tmp_path), 0)) == 0


def test_a_cache_of_a_task_that_rests_is_freed(one: Machine) -> None:
    """It is made anew when the task is opened again."""
    task = mark(one).checkpoint.event.task
    one.clock.move(seconds=40 * 86_400)
    ledger = Task(one.store, task, clock=one.clock, secret=b"x" * 32).ledger
    freed = {each.what: each.number for each in collect(one.store, str(one.root), one.clock())}
    assert freed["old caches"] == 1
    assert Task(one.store, task, clock=one.clock, secret=b"x" * 32).ledger == ledger


# --- what is not ours


def test_a_folder_from_elsewhere_is_not_removed(machine: Machine) -> None:
    """A checkpoint that came by git under the same name stays when the one of this store goes."""
    desk = machine.desk()
    for name in ("old", "new"):
        session = machine.work(desk, "file.read")
        make(session.task, str(machine.root), name, budget=20, sitting=session)
    theirs = machine.folder("old") / "checkpoint.json"
    theirs.write_text(theirs.read_text() + "\n")
    root = str(machine.root)
    prune(machine.store, root, plan(machine.store, root, Rules(keep_last=1), machine.clock()))
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
