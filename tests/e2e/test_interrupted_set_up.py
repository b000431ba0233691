"""What `init` and `serve init` write is an old file or a new one, whole: on a full disk, and where two of them write at once."""

from __future__ import annotations

import json
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.cases import for_each
from support.command_line import CommandLine
from support.home import Home
from support.proxy import Done, run

pytestmark = pytest.mark.slow
MCP = '{"mcpServers": {"files": {"command": "mcp-files"}}}'
SETTINGS = '{"model": "x"}'
NOWHERE = "http://127.0.0.1:9/mcp"
_FULL = """\
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
runpy.run_module("adjourn", run_name="__main__", alter_sys=True)
"""


def _home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write(".mcp.json", MCP)
    home.write(".claude/settings.json", SETTINGS)
    return home


def on_full_disk(work: Home | CommandLine, size: int, *arguments: str) -> Done:
    """The command, on a disk that takes only so many bytes of each file."""
    return run(*arguments, cwd=work.root, env=work.environment, program=(sys.executable, "-B", "-c", _FULL, str(size)))


def parts(folder: Path) -> list[str]:
    """Temporary files that a write left."""
    return [str(path) for path in folder.rglob(".*") if path.is_file() and path.name.count(".") > 2]


@for_each("size", [0, 100, 400, 1_000, 2_000])
def test_a_full_disk_leaves_a_set_up_undone(size: int, tmp_path: Path) -> None:
    """The error names the file; every file is as it was, and with room the same command works."""
    at = _home(tmp_path)
    before = {path: data for path, data in at.files().items() if "/.aex/" not in path}
    done = on_full_disk(at, size, "init", "--yes", "--no-start")
    assert done.code != 0
    assert "cannot write" in done.err
    assert {path: data for path, data in at.files().items() if "/.aex/" not in path} == before
    assert not (at.root / ".aex" / "policy.aex").exists()
    assert parts(at.root) == []
    assert at.run("init", "--yes", "--no-start").code == 0


def test_two_set_ups_at_once_write_one(tmp_path: Path) -> None:
    """Whoever comes second finds all done, or learns that files changed; each hook is there once, and `--undo` restores all."""
    at = _home(tmp_path)
    before = at.files()
    with ThreadPoolExecutor(3) as pool:
        ended = list(pool.map(lambda _: at.run("init", "--yes", "--no-start"), range(3)))
    assert 0 in {done.code for done in ended}
    for done in ended:
        assert done.code == 0 or "changed while it was edited" in done.err, done
    hooks = json.loads((at.root / ".claude/settings.json").read_text())["hooks"]
    assert {event: len(groups) for event, groups in hooks.items()} == dict.fromkeys(hooks, 1)
    assert (at.root / ".mcp.json").read_text().count('"proxy"') == 1
    assert parts(at.root) == []
    assert at.run("init", "--undo", "--yes").code == 0
    assert {path: data for path, data in at.files().items() if path in before} == before


@for_each("size", [0, 50, 400])
def test_a_full_disk_leaves_a_gateway_without_half_settings(size: int, tmp_path: Path) -> None:
    """Neither settings nor rules are there in part, and with room the same command works."""
    work = _workspace(tmp_path)
    assert on_full_disk(work, size, "serve", "init", f"a={NOWHERE}", "--yes").code != 0
    assert not (work.root / ".aex" / "policy.aex").exists()
    settings = work.root / "adjourn.toml"
    if settings.exists():
        assert tomllib.loads(settings.read_text())["servers"] == {"a": {"url": NOWHERE}}
        work.ok("serve", "init", "--yes")
    else:
        work.ok("serve", "init", f"a={NOWHERE}", "--yes")
    assert parts(work.root) == []


def test_two_gateways_set_up_at_once_lose_no_server(tmp_path: Path) -> None:
    """The settings list each server of a command that said it had set it up."""
    work = _workspace(tmp_path)
    with ThreadPoolExecutor(3) as pool:
        ended = dict(
            zip(
                "abc",
                pool.map(lambda name: work.run("serve", "init", f"{name}={NOWHERE}", "--yes"), "abc"),
                strict=True,
            )
        )
    listed = set(tomllib.loads((work.root / "adjourn.toml").read_text())["servers"])
    assert {name for name, done in ended.items() if done.code == 0} <= listed
    assert listed
    for done in ended.values():
        assert done.code == 0 or "changed while it was edited" in done.err, done


def _workspace(tmp_path: Path) -> CommandLine:
    work = CommandLine(tmp_path / "work", tmp_path / "config")
    work.root.mkdir()
    return work
