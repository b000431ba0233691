"""What there is to work on: contracts and checkpoints of the workspace, in order, bounded, and nothing from outside."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adjourn.errors import InvalidError, NotFoundError
from adjourn.handover.importing import list_tasks, read_contract_file
from support.workspace import Workspace

LIMIT = 256 * 1024
TASK = 'task fix_test v0\ngoal "Fix the failing test."\nuse file.read, file.write, tests.run\nreturn 1\n'


def put(workspace: Workspace, path: str, text: str = TASK) -> Path:
    place = workspace.root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def all_of(workspace: Workspace, limit: int = LIMIT) -> list[dict[str, Any]]:
    return list(list_tasks(workspace.store, str(workspace.root), limit=limit)["tasks"])


def paths(workspace: Workspace) -> list[str]:
    return [entry["path"] for entry in all_of(workspace)]


# --- the list


def test_the_published_answer(workspace: Workspace) -> None:
    """Contracts, runs and checkpoints, in this order, each with the published fields in the published order."""
    put(workspace, "tasks/fix-test.aex")
    put(workspace, ".aex/runs/7.aex", TASK.replace("fix_test", "draft"))
    context = workspace.context()
    workspace.work(context, "file.read")
    workspace.save(context, description="Read auth files, identified the bug")
    assert [list(entry.items()) for entry in all_of(workspace)] == [
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


def test_an_empty_workspace(workspace: Workspace) -> None:
    """Listing an empty workspace gives empty lists and no error."""
    assert all_of(workspace) == []


def test_the_order_is_by_name(memory_workspace: Workspace) -> None:
    """Within each kind, entries are sorted by name."""
    for name in ("b", "a", "C"):
        put(memory_workspace, f"tasks/{name}.aex")
    context = memory_workspace.context()
    memory_workspace.work(context, "file.read")
    for name in ("z", "y"):
        memory_workspace.save(context, name)
    assert paths(memory_workspace) == [
        "tasks/C.aex", "tasks/a.aex", "tasks/b.aex", ".aex/checkpoints/y/", ".aex/checkpoints/z/",
    ]  # fmt: skip


def test_only_contracts_of_these_folders(memory_workspace: Workspace, tmp_path: Path) -> None:
    """No other suffix, no folder below, nothing that a link brings in; a broken contract is listed under its file's name."""
    put(memory_workspace, "tasks/broken.aex", "use (\n")
    put(memory_workspace, "tasks/notes.txt")
    put(memory_workspace, "tasks/deeper/x.aex")
    put(memory_workspace, "elsewhere/x.aex")
    (memory_workspace.root / "tasks" / "folder.aex").mkdir()
    (tmp_path / "secret.aex").write_text(TASK)
    (memory_workspace.root / "tasks" / "out.aex").symlink_to(tmp_path / "secret.aex")
    os.mkfifo(memory_workspace.root / "tasks" / "pipe.aex")
    (memory_workspace.root / "tasks" / "bytes.aex").write_bytes(b"\xff")
    assert [(entry["name"], entry["path"]) for entry in all_of(memory_workspace)] == [("broken", "tasks/broken.aex")]
    assert "goal" not in all_of(memory_workspace)[0]


@pytest.mark.parametrize("place", ["tasks", ".aex/runs", ".aex/checkpoints"])
def test_a_folder_that_leads_out_is_empty(memory_workspace: Workspace, tmp_path: Path, place: str) -> None:
    """A link to elsewhere does not make its files known."""
    (tmp_path / "out" / "x").mkdir(parents=True)
    (tmp_path / "out" / "x.aex").write_text(TASK)
    (memory_workspace.root / place).symlink_to(tmp_path / "out")
    assert all_of(memory_workspace) == []


def test_checkpoints_that_git_brought_are_listed(memory_workspace: Workspace) -> None:
    """Those that only a folder has, published ones too; what cannot be read is left out."""
    put(
        memory_workspace,
        ".aex/checkpoints/theirs/checkpoint.json",
        '{"name":"x","timestamp":"","callsUsed":1,"toolHistory":[]}',
    )
    put(memory_workspace, ".aex/checkpoints/broken/checkpoint.json", "{")
    put(memory_workspace, ".aex/checkpoints/not a name/checkpoint.json", "{}")
    put(memory_workspace, ".aex/checkpoints/empty/audit.jsonl", "")
    put(memory_workspace, ".aex/checkpoints/file", "")
    listed = {"name": "theirs", "path": ".aex/checkpoints/theirs/", "type": "checkpoint", "goal": ""}
    assert all_of(memory_workspace) == [listed | {"describedBy": "an untrusted signer"}]


def test_litter_of_a_crash_is_not_listed(memory_workspace: Workspace) -> None:
    """Temporary files of a write that was cut off change nothing."""
    context = memory_workspace.context()
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context)
    before = all_of(memory_workspace)
    put(memory_workspace, ".aex/checkpoints/fix-auth/.checkpoint.json.7.abcd", "{")
    put(memory_workspace, ".aex/checkpoints/.checkpoint.json.7.abcd", "{")
    assert all_of(memory_workspace) == before


def test_the_store_says_what_its_checkpoints_are(memory_workspace: Workspace) -> None:
    """Checkpoints of the store are listed with or without their folders."""
    context = memory_workspace.context()
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context, description="true")
    path = memory_workspace.folder() / "checkpoint.json"
    path.write_text(path.read_text().replace('"description": "true"', '"description": "false"', 1))
    assert all_of(memory_workspace)[0]["goal"] == "true"
    shutil.rmtree(memory_workspace.folder())
    assert all_of(memory_workspace)[0]["goal"] == "true"


def test_a_broken_checkpoint_hides_no_other(memory_workspace: Workspace) -> None:
    """A name in the store that leads nowhere is left out."""
    context = memory_workspace.context()
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context)
    memory_workspace.store.swap("checkpoint/broken", "nowhere 1 abc", expect=None)
    assert paths(memory_workspace) == [".aex/checkpoints/fix-auth/"]


def test_the_list_is_bounded(memory_workspace: Workspace) -> None:
    """However much there is, the answer as it is shown stays under the limit, and has the first ones whole."""
    for number in range(60):
        put(memory_workspace, f"tasks/t{number:03}.aex", TASK.replace("Fix", "Fix it, " + "x" * (number * 7)))
    for limit in (1000, 5000, 12_000, LIMIT):
        entries = all_of(memory_workspace, limit)
        text = msgspec.json.format(msgspec.json.encode({"tasks": entries}), indent=2)
        assert len(text) <= limit
        assert [entry["path"] for entry in entries] == [f"tasks/t{number:03}.aex" for number in range(len(entries))]
    assert len(entries) == 60
    assert 5 < len(all_of(memory_workspace, 5000)) < 60


def test_what_does_not_fit_is_counted_and_paged_checkpoints_first(memory_workspace: Workspace) -> None:
    """The pages together have each entry once; the first has the checkpoints; each but the last says how much is left."""
    for number in range(60):
        put(memory_workspace, f"tasks/t{number:03}.aex", TASK.replace("Fix", "Fix it, " + "x" * 100))
    context = memory_workspace.context()
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context)
    root, seen, more = str(memory_workspace.root), list[str](), ""
    for _ in range(60):
        answer = list_tasks(memory_workspace.store, root, limit=5000, more=more)
        seen += [entry["path"] for entry in answer["tasks"]]
        assert answer.get("left", 0) == 61 - len(seen)
        if not (more := answer.get("more", "")):
            break
    assert seen[0] == ".aex/checkpoints/fix-auth/"
    assert sorted(seen) == sorted(set(seen))
    assert len(seen) == 61
    for cursor in ("-1", "x", "9" * 12, "²"):
        with pytest.raises(InvalidError, match="unknown cursor"):
            list_tasks(memory_workspace.store, root, limit=5000, more=cursor)
    assert list_tasks(memory_workspace.store, root, limit=5000, more="99999") == {"tasks": []}


# --- reading one


@pytest.mark.parametrize(
    "path",
    ["tasks/fix.aex", "./tasks/fix.aex", "tasks/../tasks/fix.aex", "{root}/tasks/fix.aex", "linked.aex", "alias"],
)
def test_a_contract_of_the_workspace(memory_workspace: Workspace, path: str) -> None:
    """By any path that stays inside; the real path and the text come back."""
    real = put(memory_workspace, "tasks/fix.aex")
    (memory_workspace.root / "linked.aex").symlink_to("tasks/fix.aex")
    (memory_workspace.root / "alias").symlink_to("tasks/fix.aex")
    found = read_contract_file(str(memory_workspace.root), path.format(root=memory_workspace.root))
    assert found == (os.path.realpath(real), TASK)


def test_one_answer_for_everything_else(memory_workspace: Workspace, tmp_path: Path) -> None:
    """Outside, missing, a link out, another suffix, a folder, a pipe, bytes: nobody can tell one from the other."""
    (tmp_path / "secret.aex").write_text(TASK)
    put(memory_workspace, "notes.txt")
    (memory_workspace.root / "out.aex").symlink_to(tmp_path / "secret.aex")
    (memory_workspace.root / "loop.aex").symlink_to("loop.aex")
    (memory_workspace.root / "text.aex").symlink_to("notes.txt")
    (memory_workspace.root / "folder.aex").mkdir()
    os.mkfifo(memory_workspace.root / "pipe.aex")
    (memory_workspace.root / "bytes.aex").write_bytes(b"\xff")
    with (memory_workspace.root / "huge.aex").open("wb") as huge:
        huge.truncate(10_000_001)
    tried = [
        "../secret.aex", "../missing.aex", str(tmp_path / "secret.aex"), "/etc/passwd", "/etc/missing.aex", "missing.aex",
        "out.aex", "loop.aex", "text.aex", "notes.txt", "folder.aex", "folder.aex/x.aex", "pipe.aex", "bytes.aex",
        "huge.aex", "", ".", "a\0.aex", "\0", "x" * 5000 + ".aex", "notes.txt/x.aex", "\ud800.aex", "~/x.aex",
    ]  # fmt: skip
    for path in tried:
        with pytest.raises(NotFoundError) as refusal:
            read_contract_file(str(memory_workspace.root), path)
        assert refusal.value.message == f"no contract at {path[:200]!r}"
        assert refusal.value.remedy == "name an .aex file inside the workspace"
        assert refusal.value.__cause__ is None
