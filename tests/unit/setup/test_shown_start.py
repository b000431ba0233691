"""What a person is shown before a server is started: what would really run, and which of it the repository brings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from adjourn.setup.probe import ServerStart
from adjourn.setup.servers import HIDDEN, MAX_SHOWN, MAX_VARIABLES, entry_of, shown_start, start_of
from support.cases import for_each

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "TOKEN": "mine"}


def rows(root: Path, **server: Any) -> list[tuple[str, str]]:
    entry = entry_of(".mcp.json", "docs", {"command": "sh", **server})
    assert entry is not None
    start = start_of(entry, str(root), ENVIRONMENT)
    assert isinstance(start, ServerStart)
    return list(shown_start(entry, start, str(root)))


def values(root: Path, name: str, **server: Any) -> list[str]:
    return [value for row, value in rows(root, **server) if row == name]


def program(root: Path, path: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    "path", ["{root}/bin", "${{workspaceFolder}}/bin", "relative:{root}/bin:/usr/bin", "{root}/bin:${{PATH}}"]
)
def test_the_program_is_looked_up_where_it_would_be_started_from(tmp_path: Path, path: str) -> None:
    """The PATH of the entry decides, with what the client puts in its place; a file of the workspace is named as such."""
    npx = program(tmp_path, "bin/npx")
    [shown] = values(tmp_path, "program", command="npx", env={"PATH": path.format(root=tmp_path)})
    assert shown == f"{npx} (in this workspace)"


def test_a_program_that_links_into_the_workspace_is_named_as_such(tmp_path: Path) -> None:
    """Both paths are shown; a relative program is one of the folder that it starts in."""
    inside, outside = tmp_path / "work", tmp_path / "bin"
    inside.mkdir()
    outside.mkdir()
    (outside / "npx").symlink_to(program(inside, "tool"))
    [shown] = values(inside, "program", command="npx", env={"PATH": str(outside)})
    assert shown == f"{outside}/npx, which is {inside}/tool (in this workspace)"
    program(inside, "sub/run")
    assert values(inside, "program", command="./run", cwd="sub") == [f"{inside}/sub/run (in this workspace)"]
    assert values(inside, "folder", command="./run", cwd="sub") == [f"{inside}/sub"]
    assert values(inside, "program", command="nowhere-at-all") == ["nowhere-at-all (not found on its PATH)"]


def test_a_program_outside_is_shown_by_its_path(tmp_path: Path) -> None:
    """Nothing is said of the workspace where nothing is of it."""
    shown = dict(rows(tmp_path, command="sh", args=["-c", "echo hello"]))
    assert shown == {"program": os.path.realpath("/usr/bin/sh"), "arguments": "-c 'echo hello'"} or (
        shown["program"].startswith(("/usr/bin/sh", "/bin/sh")) and "workspace" not in str(shown)
    )


@for_each(
    ("args", "named"),
    [
        (["server.js"], "server.js is"), (["--require=./server.js"], "server.js is"), (["-c", "sh ./server.js; true"], "server.js is"),
        (["-m", "tool"], "tool.py is"), (["-m", "pack"], "pack, pack/__main__.py are"), (["-y", "cli"], "node_modules/.bin/cli is"),
        (["."], "the folder itself is"), (["{root}/server.js"], "server.js is"), (["${{workspaceFolder}}/server.js"], "server.js is"),
    ],
)  # fmt: skip
def test_arguments_that_are_files_of_the_workspace_are_named(tmp_path: Path, args: list[str], named: str) -> None:
    """Also in the middle of a word, and as the name of a module or package that is looked up there."""
    for path in ("server.js", "tool.py", "pack/__main__.py", "node_modules/.bin/cli"):
        program(tmp_path, path)
    found = values(tmp_path, "of these", args=[arg.format(root=tmp_path) for arg in args])
    assert found == [f"{named} in this workspace"]


@for_each(
    "name",
    ["PATH", "NODE_OPTIONS", "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV", "ENV", "GIT_SSH_COMMAND",
     "GIT_CONFIG_KEY_0", "PERL5OPT", "PERL5LIB", "RUBYOPT", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "npm_config_registry",
     "NPM_CONFIG_USERCONFIG", "UV_INDEX_URL", "PIP_INDEX_URL", "CLASSPATH", "GOFLAGS", "EDITOR", "PAGER", "LESSOPEN", "HOME", "XDG_CONFIG_HOME",
     "MAVEN_OPTS", "DOTNET_STARTUP_HOOKS", "https_proxy", "DOCKER_HOST", "ADJOURN_CONFIG", "SHELL"],
)  # fmt: skip
def test_the_value_of_a_variable_that_can_load_code_is_shown(tmp_path: Path, name: str) -> None:
    """In any case of letters."""
    if name == "GIT_CONFIG_KEY_0":
        assert values(tmp_path, "env", env={name: "core.pager"}) == [f"{name}=core.pager"]
    assert values(tmp_path, "env", env={name: "/else/where"}) == [f"{name}=/else/where"]


@pytest.mark.parametrize(
    "name", ["API_KEY", "GITHUB_TOKEN", "DATABASE_URL", "NODE_AUTH_TOKEN", "NPM_CONFIG__AUTH", "PASSWORD", "X"]
)
def test_the_value_of_any_other_variable_is_hidden(tmp_path: Path, name: str) -> None:
    """It may be a secret; that it names a file of the workspace is said all the same."""
    program(tmp_path, "x.so")
    assert values(tmp_path, "env", env={name: "hush"}) == [f"{name}={HIDDEN}"]
    assert values(tmp_path, "env", env={name: "./x.so"}) == [f"{name}={HIDDEN} (x.so is in this workspace)"]


def test_what_is_shown_is_bounded(tmp_path: Path) -> None:
    """Long values say how much is left out; of many variables the number is said."""
    [shown] = values(tmp_path, "arguments", args=["x" * (MAX_SHOWN + 500)])
    assert shown.endswith("… (500 more characters)")
    many = values(tmp_path, "env", env={f"A{n}": "" for n in range(MAX_VARIABLES + 7)})
    assert (len(many), many[-1]) == (MAX_VARIABLES + 1, "7 more variables")
    assert rows(tmp_path, args=["a\0b", "~nobody/x", "/" * 5000, ""])
