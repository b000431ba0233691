"""Who imports whom, name by name: a front door counts as the modules whose names are taken from it.

import-linter checks layers and direct imports; it takes a front door for all that lies behind it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from house import Module, Source

REPOSITORY = Path(__file__).parents[3]
SOURCE = Source(REPOSITORY / "src")
READS_POLICY_FILES = {"adjourn.aex.files", "adjourn.aex.json_policy", "adjourn.aex.layers"}
OPENS_FILES = READS_POLICY_FILES | {"adjourn.aex.task_review"}
"""`review` compiles the policy that it compares a task with, by `layers`."""
_CONTRACT = next(
    contract
    for contract in tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    if contract["name"].startswith("rules are pure")
)
PURE = tuple(name.removesuffix(".**") for name in _CONTRACT["source_modules"])
DOES_IO = {name for name in _CONTRACT["forbidden_modules"] if not name.startswith("adjourn.")}


def _pure_modules() -> list[str]:
    return [
        name
        for name, module in SOURCE.modules.items()
        if name.startswith(tuple(f"{pure}." for pure in PURE)) or name in PURE
        if not module.is_package and name not in OPENS_FILES
    ]


def _reached(start: Module) -> dict[str, list[str]]:
    """Module → the chain of imports that leads to it, for all that a module loads in the end."""
    chains = {start.name: [start.name]}
    open_modules = [start]
    while open_modules:
        module = open_modules.pop()
        for target in SOURCE.imports_of(module, deferred=True) - chains.keys():
            chains[target] = [*chains[module.name], target]
            if not SOURCE.modules[target].is_package:
                open_modules.append(SOURCE.modules[target])
    return chains


def test_the_pure_modules_exist() -> None:
    """Each entry of the list of pure modules is a module or a package."""
    assert not set(PURE) - set(SOURCE.modules)


@pytest.mark.parametrize("name", _pure_modules())
def test_a_pure_module_reaches_no_store_no_host_and_no_io(name: str) -> None:
    """Whatever a pure module imports, however indirectly, neither stores, nor examines this machine, nor does I/O."""
    for target, chain in _reached(SOURCE.modules[name]).items():
        assert target.split(".")[1] not in {"store", "host"}, " → ".join(chain)
        if not SOURCE.modules[target].is_package:
            assert not SOURCE.imports_from_elsewhere(SOURCE.modules[target]) & DOES_IO, " → ".join(chain)


def test_no_modules_import_each_other() -> None:
    """The graph of imports has no cycle, with or without the imports inside functions."""
    assert SOURCE.cycles() == []
    assert SOURCE.cycles(deferred=True) == []
