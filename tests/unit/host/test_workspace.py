"""Files of a workspace are written whole or not at all, and no link leads out of it."""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import AdjournError, InvalidError, NotFoundError, RefusedError, StoreError
from adjourn.host import clock, workspace
from adjourn.host.workspace import (
    check_name,
    create_file,
    locked,
    make_folder,
    open_regular,
    read_file,
    read_inside,
    remove_file,
    resolve_inside,
    write_file,
)
from support.cases import for_each


@pytest.mark.parametrize("name", ["a", "fix-auth", "A_1", "x" * 64, "-", "_"])
def test_names_of_checkpoints(name: str) -> None:
    """Up to 64 letters, digits, dashes and underscores are a name."""
    assert check_name(name) == name


@for_each("name", ["", "x" * 65, ".", "..", "a.b", "a/b", "a b", "ä", "a\n", "a\0", "٣", None, 7, ["a"], b"a"])
def test_other_names_are_refused(name: object) -> None:
    """What could be a path, is too long, or is no text raises InvalidError."""
    with pytest.raises(InvalidError, match="not a checkpoint name"):
        check_name(name)


@given(st.text(max_size=70))
def test_a_name_is_safe_or_refused(name: str) -> None:
    """Every accepted name is one plain part of a path."""
    try:
        check_name(name)
    except InvalidError:
        return
    assert os.path.basename(name) == name
    assert name.isascii()
    assert name not in ("", ".", "..")


# --- inside


def test_what_is_put_in_the_way_of_a_read_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that becomes a link after it was examined leads nowhere; a link that was there before may lead inside."""
    root = tmp_path / "work"
    for folder in (root / "src", tmp_path / "away"):
        folder.mkdir(parents=True)
        (folder / "a").write_text(folder.name)
    (root / "link").symlink_to("src")
    assert read_inside(str(root), "link/a", 100) == b"src"

    def look_then_exchange(root: str, path: str) -> str:
        real = resolve_inside(root, path)
        os.rename(f"{root}/src", f"{root}/old")
        os.symlink(tmp_path / "away", f"{root}/src")
        return real

    monkeypatch.setattr(workspace, "resolve_inside", look_then_exchange)
    with pytest.raises(InvalidError):
        read_inside(str(root), "link/a", 100)


def test_paths_inside(tmp_path: Path) -> None:
    """A path in the workspace is resolved, whether it exists or not."""
    (tmp_path / "src").mkdir()
    (tmp_path / "link").symlink_to("src")
    assert resolve_inside(str(tmp_path), "src/new.py") == str(tmp_path / "src" / "new.py")
    assert resolve_inside(str(tmp_path), "link/new.py") == str(tmp_path / "src" / "new.py")
    assert resolve_inside(str(tmp_path), ".") == str(tmp_path)
    assert resolve_inside(str(tmp_path), str(tmp_path / "src")) == str(tmp_path / "src")
    assert resolve_inside("/", "etc") == "/etc"


@pytest.mark.parametrize("path", ["..", "../x", "src/../../x", "/etc/passwd", "out/x", "out", "twice/x"])
def test_paths_outside_are_refused(tmp_path: Path, path: str) -> None:
    """Dots, absolute paths and links that lead out raise RefusedError."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "root-sibling").mkdir()
    (root / "out").symlink_to("..")
    (root / "twice").symlink_to("out")
    with pytest.raises(RefusedError, match="is outside the workspace"):
        resolve_inside(str(root), path)


def test_a_sibling_with_a_longer_name_is_outside(tmp_path: Path) -> None:
    """`root-sibling` is not in `root`."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root-sibling").mkdir()
    with pytest.raises(RefusedError):
        resolve_inside(str(tmp_path / "root"), "../root-sibling/x")


# --- folders


def test_folders_are_made_step_by_step(tmp_path: Path) -> None:
    """All parts are created; those that are there are kept."""
    (tmp_path / ".aex").mkdir()
    path = make_folder(str(tmp_path), ".aex/checkpoints/one")
    assert path == str(tmp_path / ".aex" / "checkpoints" / "one")
    assert Path(path).is_dir()
    assert make_folder(str(tmp_path), ".aex/checkpoints/one") == path


@pytest.mark.parametrize("linked", [".aex", ".aex/checkpoints", ".aex/checkpoints/one"])
def test_no_folder_is_made_through_a_link(tmp_path: Path, linked: str) -> None:
    """A link in any step is refused, and nothing appears where it leads."""
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / linked).parent.mkdir(parents=True)
    (root / linked).symlink_to(elsewhere)
    with pytest.raises(RefusedError, match="is a link or not a folder"):
        make_folder(str(root), ".aex/checkpoints/one")
    assert list(elsewhere.iterdir()) == []


def test_no_folder_is_made_over_a_file(tmp_path: Path) -> None:
    """A file where a folder should be is refused, and stays."""
    (tmp_path / ".aex").write_text("x")
    with pytest.raises(RefusedError):
        make_folder(str(tmp_path), ".aex/checkpoints")
    assert (tmp_path / ".aex").read_text() == "x"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """Another failure raises StoreError with the path."""
    with pytest.raises(StoreError, match="cannot create"):
        make_folder(str(tmp_path / "missing"), "a")


# --- writing


@pytest.mark.parametrize("chunks", [b"new text", [b"new ", b"text"], (part for part in (b"new", b" text"))])
def test_files_are_replaced_whole(tmp_path: Path, chunks: object) -> None:
    """Bytes, or pieces of them, become the file; nothing else is left in the folder."""
    (tmp_path / "a.json").write_text("old")
    write_file(str(tmp_path), "a.json", chunks)
    assert (tmp_path / "a.json").read_bytes() == b"new text"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """Writing over a link changes the link's name, not the file it leads to."""
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.json").symlink_to(victim)
    write_file(str(folder), "a.json", b"new")
    assert victim.read_text() == "untouched"
    assert not (folder / "a.json").is_symlink()
    assert (folder / "a.json").read_text() == "new"


def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    """When the pieces fail half-way the old file stays, and no temporary one is left."""
    (tmp_path / "a.json").write_text("old")

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_file(str(tmp_path), "a.json", pieces())
    assert (tmp_path / "a.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("broken", ["fsync", "rename"])
def test_a_disk_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """A failing fsync or rename raises StoreError, and leaves nothing behind."""
    (tmp_path / "a.json").write_text("old")

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(StoreError, match=r"cannot write .*a\.json: No space left"):
        write_file(str(tmp_path), "a.json", b"new")
    monkeypatch.undo()
    assert (tmp_path / "a.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is: contents to disk, rename, folder to disk."""
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def spy_fsync(handle: int) -> None:
        steps.append("fsync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "fsync file")
        fsync(handle)

    def spy_rename(source: str, target: str) -> None:
        steps.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "rename", spy_rename)
    write_file(str(tmp_path), "a.json", b"new")
    assert steps == ["fsync file", "rename", "fsync folder"]


def test_a_file_for_its_owner_can_be_opened_by_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even while it is empty: who has it open then can read what comes."""
    made: list[int] = []
    opened = os.open

    def spy(path: str, flags: int, mode: int = 0o777) -> int:
        handle = opened(path, flags, mode)
        if flags & os.O_CREAT:
            made.append(stat.S_IMODE(os.fstat(handle).st_mode))
        return handle

    monkeypatch.setattr(os, "open", spy)
    write_file(str(tmp_path), "a.json", b"new", 0o600)
    assert create_file(str(tmp_path), "b.json", b"new", 0o600)
    assert made == [0o600, 0o600]
    assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == [0o600, 0o600]


def test_a_file_has_its_mode_before_it_has_content(tmp_path: Path) -> None:
    """What is written for its owner alone is at no moment readable by others, whatever the umask is."""
    (tmp_path / "a.json").write_text("old")
    seen: list[int] = []

    def chunks() -> Iterator[bytes]:
        seen.extend(path.stat().st_mode & 0o777 for path in tmp_path.iterdir() if path.name != "a.json")
        yield b"new"

    write_file(str(tmp_path), "a.json", chunks(), 0o600)
    assert seen == [0o600]
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("there", ["file", "folder", "link to nothing"])
def test_a_new_file_never_takes_the_place_of_something(tmp_path: Path, there: str) -> None:
    """Creating a file under a taken name changes nothing and leaves no temporary file; a free name gets the whole file."""
    path = tmp_path / "a.json"
    if there == "file":
        path.write_text("old")
    elif there == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "nothing")
    assert not create_file(str(tmp_path), "a.json", b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]
    assert create_file(str(tmp_path), "b.json", b"new")
    assert sorted((one.name, one.is_symlink()) for one in tmp_path.iterdir())[1:] == [("b.json", False)]
    assert (tmp_path / "b.json").read_bytes() == b"new"


def test_of_two_that_make_a_file_at_once_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is taken in one step, however late the other comes."""
    link = os.link

    def late(source: str, target: str) -> None:
        (tmp_path / "a.json").write_text("other")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    assert not create_file(str(tmp_path), "a.json", b"new")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.json", "other")]


def test_a_folder_cannot_be_overwritten(tmp_path: Path) -> None:
    """A folder in the place of the file raises StoreError, and no temporary file is left."""
    (tmp_path / "a.json").mkdir()
    with pytest.raises(StoreError, match="cannot write"):
        write_file(str(tmp_path), "a.json", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    """Writing into a folder that is not there raises StoreError."""
    with pytest.raises(StoreError, match="cannot write"):
        write_file(str(tmp_path / "missing"), "a.json", b"new")


def test_removing(tmp_path: Path) -> None:
    """A removed file is gone, and removing what is not there does nothing."""
    (tmp_path / "a").write_text("x")
    remove_file(str(tmp_path), "a")
    remove_file(str(tmp_path), "a")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="cannot remove"):
        remove_file(str(tmp_path), "folder")


# --- reading


def test_reading_a_regular_file(tmp_path: Path) -> None:
    """A file within the limit is read whole; at the limit too."""
    (tmp_path / "a").write_bytes(b"12345")
    assert read_file(str(tmp_path / "a"), 5) == b"12345"
    assert read_file(str(tmp_path / "a"), 100) == b"12345"


@pytest.mark.skipif(sys.platform != "linux", reason="files without a size are Linux's")
def test_reading_a_file_that_tells_no_size() -> None:
    """What the file system says is 0 bytes long is read whole, and refused beyond the limit."""
    path = "/proc/self/status"
    assert os.stat(path).st_size == 0
    assert read_file(path, 100_000).endswith(b"\n")
    with pytest.raises(InvalidError, match="more than 10 bytes"):
        read_file(path, 10)


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    """Links, folders, pipes and files beyond the limit raise InvalidError, without waiting for anything."""
    (tmp_path / "a").write_bytes(b"123456")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    for name in ("link", "folder", "pipe"):
        with pytest.raises(InvalidError):
            read_file(str(tmp_path / name), 100)
    with pytest.raises(InvalidError, match="of at most 5 bytes"):
        read_file(str(tmp_path / "a"), 5)
    with pytest.raises(NotFoundError, match="does not exist"):
        read_file(str(tmp_path / "missing"), 5)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_grows_is_not_read_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds for what is read, not only for the size when it was opened."""
    (tmp_path / "a").write_bytes(b"123")

    def open_then_grow(path: str, limit: int, root: str) -> int:
        handle = open_regular(path, limit, root)
        Path(path).write_bytes(b"123456")
        return handle

    monkeypatch.setattr(workspace, "open_regular", open_then_grow)
    with pytest.raises(InvalidError, match="more than 5 bytes"):
        read_file(str(tmp_path / "a"), 5)


def test_every_refusal_is_one_of_ours(tmp_path: Path) -> None:
    """A component that is a file, a name too long: what the system refuses is shown in our words."""
    (tmp_path / "a").write_bytes(b"1")
    for path in (tmp_path / "a" / "b", tmp_path / ("x" * 300)):
        with pytest.raises(AdjournError):
            read_file(str(path), 5)


# --- ids


def test_ids_are_short_and_plain() -> None:
    """Ids are of characters that cannot be misread, and a task's begins with its day."""
    assert clock.task_id(1_777_735_812_345).startswith("20260502-")
    for made, length in ((clock.session_id(), 8), (clock.short(6), 6), (clock.task_id(0)[9:], 8)):
        assert len(made) == length
        assert not set(made) & set("ilouILOU")
        assert made.isalnum()
        assert made == made.lower()


def test_ids_differ() -> None:
    """A thousand ids are all different."""
    assert len({clock.session_id() for _ in range(1000)}) == 1000


def test_waiting_for_a_locked_folder_has_an_end(tmp_path: Path) -> None:
    """Another process's lock is waited for, not for longer than was said, and the error names the folder."""
    said = pytest.raises(StoreError, match=f"{tmp_path} is locked by another process")
    with locked(str(tmp_path)), said, locked(str(tmp_path), 0.05):
        raise AssertionError("both have the lock")
    with locked(str(tmp_path), 0):
        pass


def test_a_lock_that_is_let_go_meanwhile_is_taken(tmp_path: Path) -> None:
    """Whoever waits continues when the other is done."""
    held = locked(str(tmp_path))
    held.__enter__()
    timer = threading.Timer(0.1, held.__exit__, (None, None, None))
    timer.start()
    with locked(str(tmp_path), 30):
        pass
    timer.join()
