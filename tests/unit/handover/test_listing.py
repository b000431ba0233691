"""What there is to work on: contracts and checkpoints of the workspace, in order, bounded, and nothing from outside."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adjourn.errors import NotFoundError
from adjourn.handover.listing import listed, read_contract_file
from unit.checkpoints.test_checkpoint import Machine

LIMIT = 256 * 1024
TASK = 'task fix_test v0\ngoal "Fix the failing test."\nuse file.read, file.write, tests.run\nreturn 1\n'


@pytest.fixture(params=["memory", "sqlite"])
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    machine = Machine(tmp_path, monkeypatch, store=request.param)
    yield machine
    machine.store.close()


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def put(machine: Machine, path: str, text: str = TASK) -> Path:
    place = machine.root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def all_of(machine: Machine, limit: int = LIMIT) -> list[dict[str, Any]]:
    return listed(machine.store, str(machine.root), limit=limit)


def paths(machine: Machine) -> list[str]:
    return [entry["path"] for entry in all_of(machine)]


# --- the list


def test_the_published_answer(machine: Machine) -> None:
    """Contracts, runs and checkpoints, in this order, each with the published fields in the published order."""
    put(machine, "tasks/fix-test.aex")
    put(machine, ".aex/runs/7.aex", TASK.replace("fix_test", "draft"))
    desk = machine.desk()
    machine.work(desk, "file.read")
    machine.save(desk, description="Read auth files, identified the bug")
    assert [list(entry.items()) for entry in all_of(machine)] == [
        [
            ("name", "fix_test"),
            ("path", "tasks/fix-test.aex"),
            ("type", "task"),
            ("goal", "Fix the failing test."),
            ("tools", ["file.read", "file.write", "tests.run"]),
        ],
        [
            ("name", "draft"),
            ("path", ".aex/runs/7.aex"),
            ("type", "run"),
            ("goal", "Fix the failing test."),
            ("tools", ["file.read", "file.write", "tests.run"]),
        ],
        [
            ("name", "fix-auth"),
            ("path", ".aex/checkpoints/fix-auth/"),
            ("type", "checkpoint"),
            ("goal", "Read auth files, identified the bug"),
        ],
    ]


def test_an_empty_workspace(machine: Machine) -> None:
    """Nothing is nothing, and no error."""
    assert all_of(machine) == []


def test_the_order_is_by_name(one: Machine) -> None:
    """Within each kind."""
    for name in ("b", "a", "C"):
        put(one, f"tasks/{name}.aex")
    desk = one.desk()
    one.work(desk, "file.read")
    for name in ("z", "y"):
        one.save(desk, name)
    assert paths(one) == [
        "tasks/C.aex", "tasks/a.aex", "tasks/b.aex", ".aex/checkpoints/y/", ".aex/checkpoints/z/",
    ]  # fmt: skip


def test_only_contracts_of_these_folders(one: Machine, tmp_path: Path) -> None:
    """No other suffix, no folder below, nothing that a link brings in; a broken contract is listed under its file's name."""
    put(one, "tasks/broken.aex", "use (\n")
    put(one, "tasks/notes.txt")
    put(one, "tasks/deeper/x.aex")
    put(one, "elsewhere/x.aex")
    (one.root / "tasks" / "folder.aex").mkdir()
    (tmp_path / "secret.aex").write_text(TASK)
    (one.root / "tasks" / "out.aex").symlink_to(tmp_path / "secret.aex")
    os.mkfifo(one.root / "tasks" / "pipe.aex")
    (one.root / "tasks" / "bytes.aex").write_bytes(b"\xff")
    assert [(entry["name"], entry["path"]) for entry in all_of(one)] == [("broken", "tasks/broken.aex")]
    assert "goal" not in all_of(one)[0]


@pytest.mark.parametrize("place", ["tasks", ".aex/runs", ".aex/checkpoints"])
def test_a_folder_that_leads_out_is_empty(one: Machine, tmp_path: Path, place: str) -> None:
    """A link to elsewhere does not make its files known."""
    (tmp_path / "out" / "x").mkdir(parents=True)
    (tmp_path / "out" / "x.aex").write_text(TASK)
    (one.root / place).symlink_to(tmp_path / "out")
    assert all_of(one) == []


def test_checkpoints_that_git_brought_are_listed(one: Machine) -> None:
    """Those that only a folder has, published ones too; what cannot be read is left out."""
    put(
        one,
        ".aex/checkpoints/theirs/checkpoint.json",
        '{"name":"x","timestamp":"","callsUsed":1,"toolHistory":[]}',
    )
    put(one, ".aex/checkpoints/broken/checkpoint.json", "{")
    put(one, ".aex/checkpoints/not a name/checkpoint.json", "{}")
    put(one, ".aex/checkpoints/empty/audit.jsonl", "")
    put(one, ".aex/checkpoints/file", "")
    listed = {"name": "theirs", "path": ".aex/checkpoints/theirs/", "type": "checkpoint", "goal": ""}
    assert all_of(one) == [listed | {"describedBy": "an untrusted signer"}]


def test_litter_of_a_crash_is_not_listed(one: Machine) -> None:
    """Temporary files of a write that was cut off change nothing."""
    desk = one.desk()
    one.work(desk, "file.read")
    one.save(desk)
    before = all_of(one)
    put(one, ".aex/checkpoints/fix-auth/.checkpoint.json.7.abcd", "{")
    put(one, ".aex/checkpoints/.checkpoint.json.7.abcd", "{")
    assert all_of(one) == before


def test_the_store_says_what_its_checkpoints_are(one: Machine) -> None:
    """With or without their folders."""
    desk = one.desk()
    one.work(desk, "file.read")
    one.save(desk, description="true")
    path = one.folder() / "checkpoint.json"
    path.write_text(path.read_text().replace('"description": "true"', '"description": "false"', 1))
    assert all_of(one)[0]["goal"] == "true"
    shutil.rmtree(one.folder())
    assert all_of(one)[0]["goal"] == "true"


def test_a_broken_checkpoint_hides_no_other(one: Machine) -> None:
    """A name in the store that leads nowhere is left out."""
    desk = one.desk()
    one.work(desk, "file.read")
    one.save(desk)
    one.store.swap("checkpoint/broken", "nowhere 1 abc", expect=None)
    assert paths(one) == [".aex/checkpoints/fix-auth/"]


def test_the_list_is_bounded(one: Machine) -> None:
    """However much there is, the answer as it is shown stays under the limit, and has the first ones whole."""
    for number in range(60):
        put(one, f"tasks/t{number:03}.aex", TASK.replace("Fix", "Fix it, " + "x" * (number * 7)))
    for limit in (1000, 5000, 12_000, LIMIT):
        entries = all_of(one, limit)
        text = msgspec.json.format(msgspec.json.encode({"tasks": entries}), indent=2)
        assert len(text) <= limit
        assert [entry["path"] for entry in entries] == [
            f"tasks/t{number:03}.aex" for number in range(len(entries))
        ]
    assert len(entries) == 60
    assert 5 < len(all_of(one, 5000)) < 60


# --- reading one


@pytest.mark.parametrize(
    "path",
    [
        "tasks/fix.aex",
        "./tasks/fix.aex",
        "tasks/../tasks/fix.aex",
        "{root}/tasks/fix.aex",
        "linked.aex",
        "alias",
    ],
)
def test_a_contract_of_the_workspace(one: Machine, path: str) -> None:
    """By any path that stays inside; the real path and the text come back."""
    real = put(one, "tasks/fix.aex")
    (one.root / "linked.aex").symlink_to("tasks/fix.aex")
    (one.root / "alias").symlink_to("tasks/fix.aex")
    found = read_contract_file(str(one.root), path.format(root=one.root))
    assert found == (os.path.realpath(real), TASK)


def test_one_answer_for_everything_else(one: Machine, tmp_path: Path) -> None:
    """Outside, missing, a link out, another suffix, a folder, a pipe, bytes: nobody can tell one from the other."""
    (tmp_path / "secret.aex").write_text(TASK)
    put(one, "notes.txt")
    (one.root / "out.aex").symlink_to(tmp_path / "secret.aex")
    (one.root / "loop.aex").symlink_to("loop.aex")
    (one.root / "text.aex").symlink_to("notes.txt")
    (one.root / "folder.aex").mkdir()
    os.mkfifo(one.root / "pipe.aex")
    (one.root / "bytes.aex").write_bytes(b"\xff")
    with (one.root / "huge.aex").open("wb") as huge:
        huge.truncate(10_000_001)
    tried = [
        "../secret.aex", "../missing.aex", str(tmp_path / "secret.aex"), "/etc/passwd", "/etc/missing.aex", "missing.aex",
        "out.aex", "loop.aex", "text.aex", "notes.txt", "folder.aex", "folder.aex/x.aex", "pipe.aex", "bytes.aex",
        "huge.aex", "", ".", "a\0.aex", "\0", "x" * 5000 + ".aex", "notes.txt/x.aex", "\ud800.aex", "~/x.aex",
    ]  # fmt: skip
    for path in tried:
        with pytest.raises(NotFoundError) as refusal:
            read_contract_file(str(one.root), path)
        assert refusal.value.message == f"no contract at {path[:200]!r}"
        assert refusal.value.remedy == "name an .aex file inside the workspace"
        assert refusal.value.__cause__ is None
