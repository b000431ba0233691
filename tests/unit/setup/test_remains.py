"""What stays in a workspace after its set-up is undone, and how it is deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjourn.errors import RefusedError
from adjourn.setup.planning import IGNORED_FILES
from adjourn.setup.remains import delete, delete_command, remains

WRITTEN = (
    ".aex/adjourn.db",
    ".aex/adjourn.db-wal",
    ".aex/checkpoints/a/checkpoint.json",
    "tmp/checkpoint-active.md",
    "output/p/checkpoints/x.md",
)
PATTERNS = [".aex/adjourn.db*", ".aex/checkpoints", "tmp/checkpoint*.md", "output/*/checkpoints"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in WRITTEN:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".aex" / ".gitignore").write_text(IGNORED_FILES)
    return tmp_path


def test_what_adjourn_wrote_is_found_and_deleted_with_its_folders(root: Path) -> None:
    """The file that kept the history out of git goes with the last of it."""
    assert remains(str(root)) == PATTERNS
    assert delete_command(PATTERNS, str(root)) == f"rm -r {' '.join(PATTERNS)} .aex/.gitignore"
    delete([".aex/adjourn.db*"], str(root))
    assert (root / ".aex" / ".gitignore").exists()
    delete(remains(str(root)), str(root))
    assert list(root.iterdir()) == []


def test_what_a_person_wrote_stays(root: Path) -> None:
    """Policies, contracts, notes and other files of the same folders are kept, and so is an edited .gitignore."""
    kept = (".aex/policy.aex", ".aex/.gitignore", "tmp/notes.md", "memory/MEMORY.md", "output/p/result.txt")
    for name in kept:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("mine")
    delete(remains(str(root)), str(root))
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()) == sorted(kept)


def test_nothing_is_deleted_through_a_link(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A folder of a foreign repository may lead anywhere: then nothing at all is deleted."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "checkpoints").mkdir()
    (root / "output" / "q").symlink_to(outside)
    with pytest.raises(RefusedError):
        delete(remains(str(root)), str(root))
    assert (outside / "checkpoints").exists()
    assert (root / ".aex" / "adjourn.db").exists()
