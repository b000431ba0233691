"""Packages import each other through their front doors: `from adjourn.PACKAGE import NAME`, with NAME in its `__all__`.

Modules of one package import each other directly. So do pure modules, because a front door hides what an import loads.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from house import Module, Source

REPOSITORY = Path(__file__).parents[3]
SOURCE = Source(REPOSITORY / "src")
PURE: Final = tuple(
    name.removesuffix(".**")
    for contract in tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    if contract["name"].startswith("rules are pure")
    for name in contract["source_modules"]
)
FACADE: Final = "adjourn"
"""The public API: it names the modules that define its names, and has a test of its own."""

PUBLIC_MODULES: Final = {
    "aex": {"conditions", "seal", "templates"},
    "checkpoints": {
        "anchors", "attachments", "checkpoint", "environment", "folder", "folder_verification",
        "git_snapshot", "histories", "page_archive", "page_files", "reflect", "rollback", "save",
    },
    "clients": {"person"},
    "code.server": {"skill_files"},
    "hooks": {"standby"},
    "host": {"folders", "ids", "keys", "pin", "process", "python", "secret_prompt"},
    "knowledge.records": {"agent_notes"},
    "log": {"kinds"},
    "mcp": {"frames", "server_lines"},
    "models": {"client_model", "draft"},
    "policy": {"signatures"},
    "setup": {"files", "policy_plan", "undo"},
    "tasks": {"idempotency"},
}  # fmt: skip
"""Package → modules that others import whole: their names are read with the module's, as in `keys.signer`, `kinds.ToolAllowed`."""

_SAME = "the module has the name of its function; a front door would give one or the other"
_CLASH = "another module of the package defines the name, too"
_START = "on the path of every start, where a front door costs more than the module"
EXCEPTIONS: Final = {
    ("cli.working.status_view", "run"): _START,
    ("clients.options", "BRIEF_BOUNDS"): _START,
    ("clients.options", "BRIEF_BYTES"): _START,
    ("clients.options", "Option"): _START,
    ("clients.options", "read"): _START,
    ("hooks.main", "run"): _START,
    ("hooks.options", "OPTIONS"): _START,
    ("host.clock", "now"): _START,
    ("host.python", "leave_working_folder"): _START,
    ("knowledge.records.diff", "diff"): _SAME,
    ("store.base", "Store"): _START,
    ("store.passwords", "check_argument"): _START,
    ("store.passwords", "is_postgres"): _START,
    ("store.passwords", "without_user"): _START,
    ("tasks.task", "Task"): _START,
    ("text.terminal", "visible_lines"): _START,
}
"""(Module, name) → why others take the name from the module that defines it. Remove what is no longer needed."""


class Door(NamedTuple):
    """A package's front door, as its `__init__` writes it three times."""

    typed: dict[str, str]
    """Name → module, for type checkers."""
    names: list[str]
    """`__all__`."""
    homes: dict[str, str]
    """Name → module, for `lazily`."""


class Taken(NamedTuple):
    """A name, or a whole module (`name` is empty), that another package takes past a front door."""

    by: str
    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.by}: {self.module}{':' if self.name else ''}{self.name}"


def _door(package: str) -> Door | None:
    """Of a package that loads its names lazily."""
    module = SOURCE.modules[f"adjourn.{package}"]
    typed: dict[str, str] = {}
    names: list[str] = []
    homes: dict[str, str] | None = None
    for node in ast.walk(module.tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                assert isinstance(line, ast.ImportFrom), ast.unparse(line)
                typed |= {alias.asname or alias.name: line.module or "" for alias in line.names}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = ast.literal_eval(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "lazily":
            table = ast.literal_eval(node.args[1])
            assert list(table) == sorted(table), module.name
            assert all(list(names) == sorted(names) for names in table.values()), module.name
            homes = {name: home for home in table for name in table[home]}
    return None if homes is None else Door(typed, names, homes)


PACKAGES = sorted(
    name.removeprefix("adjourn.")
    for name, module in SOURCE.modules.items()
    if module.is_package and name != FACADE
)
DOORS = {package: door for package in PACKAGES if (door := _door(package)) is not None}


def _package_of(name: str) -> str:
    """The package that a module belongs to: the nearest one with a front door, or else the topmost one."""
    parts = name.split(".")[1:]
    packages = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((package for package in packages if package in DOORS), parts[0] if parts else FACADE)


def _taken(module: Module) -> Iterator[Taken]:
    """What a module takes from another package otherwise than through its front door."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("adjourn."):
            continue
        base = node.module or ""
        for alias in node.names:
            whole = f"{base}.{alias.name}" in SOURCE.modules
            target = f"{base}.{alias.name}" if whole else base
            package = _package_of(target)
            if whole and target == f"adjourn.{package}":
                continue  # the door itself: `from adjourn import tasks`
            if target.split(".")[1] == module.name.partition(".")[2].partition(".")[0]:
                continue
            door = DOORS.get(package)
            if base == f"adjourn.{package}" and (alias.name in door.names if door else target == base):
                continue
            yield Taken(module.name, target.removeprefix("adjourn."), "" if whole else alias.name)


TAKEN = [
    taken
    for module in SOURCE.modules.values()
    if module.name != FACADE
    for taken in _taken(module)
    if "." in taken.module
    and not (module.name.startswith(PURE) and f"adjourn.{taken.module}".startswith(PURE))
]


def test_other_packages_are_entered_by_their_front_doors() -> None:
    """A name of another package comes from its `__all__`, or is one of the exceptions, each of which has its reason."""
    past = [
        taken
        for taken in TAKEN
        if (taken.name and (taken.module, taken.name) not in EXCEPTIONS)
        or (
            not taken.name
            and taken.module.rpartition(".")[2] not in PUBLIC_MODULES.get(taken.module.rpartition(".")[0], ())
        )
    ]
    assert not past, "\n".join(map(str, past))


def test_no_exception_is_left_over() -> None:
    """Each exception and each public module is used by another package."""
    used = {(taken.module, taken.name) for taken in TAKEN}
    assert [key for key in EXCEPTIONS if key not in used] == []
    listed = [
        (f"{package}.{name}", "") for package, names in PUBLIC_MODULES.items() for name in sorted(names)
    ]
    assert [key for key in listed if key not in used] == []


@pytest.mark.parametrize("package", DOORS)
def test_a_front_door_agrees_with_itself(package: str) -> None:
    """Type checkers, `__all__` and the table of modules name the same things, in the order that ruff sorts them."""
    door = DOORS[package]
    assert door.typed == {name: f"adjourn.{package}.{home}" for name, home in door.homes.items()}
    assert sorted(door.homes) == sorted(door.names)
    assert len(set(door.names)) == len(door.names)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_it_is_for(package: str) -> None:
    """The docstring of each package is a sentence at least."""
    text = ast.get_docstring(SOURCE.modules[f"adjourn.{package}"].tree) or ""
    assert len(text.split()) >= 4
    assert text.rstrip().endswith((".", ")"))


def test_a_name_that_is_its_module_s_is_the_value_in_every_order() -> None:
    """Whichever name of the module is asked for first, `adjourn.text.nearest` is the function, and not the module."""
    script = (
        "from adjourn.text import did_you_mean; from adjourn.text import nearest; print(callable(nearest))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
