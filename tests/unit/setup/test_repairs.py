"""Settings that name an adjourn that is gone: only that path is replaced, and only in files of the workspace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adjourn.setup.checks import moved_programs


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only adjourn on PATH."""
    found = tmp_path / "programs" / "bin" / "adjourn"
    found.parent.mkdir(parents=True)
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    monkeypatch.setenv("PATH", str(found.parent))
    return found


def servers(*commands: str) -> str:
    listed = {f"s{number}": {"command": one, "args": ["proxy", "--", "x"]} for number, one in enumerate(commands)}
    return json.dumps({"mcpServers": listed})


def test_only_the_path_that_is_gone_is_replaced(tmp_path: Path, program: Path) -> None:
    """A hostile path that is the end of others changes no other command."""
    root = tmp_path / "work"
    root.mkdir()
    kept = str(program.with_name("other")) + "/adjourn"
    (root / ".mcp.json").write_text(servers("/adjourn", kept))
    (program.parent / "other").mkdir()
    Path(kept).write_text("")
    (change,) = moved_programs(str(root))
    assert change.after == servers(str(program), kept)


def test_a_file_that_is_reached_through_a_link_is_left(tmp_path: Path, program: Path) -> None:
    """Neither a linked file nor one in a linked folder is read or changed."""
    root, outside = tmp_path / "work", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "mcp.json").write_text(servers("/gone/adjourn"))
    (root / ".mcp.json").symlink_to(outside / "mcp.json")
    (root / ".cursor").symlink_to(outside)
    assert program.exists()
    assert list(moved_programs(str(root))) == []


@pytest.mark.parametrize(("tagged", "lasts"), [("programs", True), (".", False)])
def test_a_program_in_a_cache_replaces_none(tmp_path: Path, program: Path, tagged: str, lasts: bool) -> None:
    """An adjourn in a folder that is tagged as a cache is named nowhere; the tag of its own environment says nothing."""
    (tmp_path / tagged / "CACHEDIR.TAG").touch()
    root = tmp_path / "work"
    root.mkdir()
    (root / ".mcp.json").write_text(servers("/gone/adjourn"))
    changed = [change.after for change in moved_programs(str(root))]
    assert changed == ([servers(str(program))] if lasts else [])
