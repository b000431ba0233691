"""Who imports whom, also through other modules. import-linter checks layers and direct imports."""

from __future__ import annotations

import tomllib
from functools import cache

from house import REPOSITORY, Module, product

READS_POLICY_FILES = {"adjourn.aex.files", "adjourn.aex.json_policy", "adjourn.aex.layers", "adjourn.aex.permissions"}
OPENS_FILES = READS_POLICY_FILES | {"adjourn.aex.task_review"}
"""`review` compiles the policy that it compares a task with, by `permissions`."""
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
        for name, module in product().modules.items()
        if name.startswith(tuple(f"{pure}." for pure in PURE)) or name in PURE
        if not module.is_package and name not in OPENS_FILES
    ]


@cache
def _imports_of(name: str) -> set[str]:
    return product().imports_of(product().modules[name], deferred=True)


def _reached(start: Module) -> dict[str, list[str]]:
    """Module → the chain of imports that leads to it, for all that a module loads in the end."""
    chains = {start.name: [start.name]}
    open_modules = [start]
    while open_modules:
        module = open_modules.pop()
        for target in _imports_of(module.name) - chains.keys():
            chains[target] = [*chains[module.name], target]
            if not product().modules[target].is_package:
                open_modules.append(product().modules[target])
    return chains


def test_the_pure_modules_exist() -> None:
    """Each entry of the list of pure modules is a module or a package."""
    assert not set(PURE) - set(product().modules)


def test_a_pure_module_reaches_no_store_no_host_and_no_io() -> None:
    """Whatever a pure module imports, however indirectly, neither stores, nor examines this machine, nor does I/O."""
    does_io = {
        name
        for name, module in product().modules.items()
        if not module.is_package and product().imports_from_elsewhere(module) & DOES_IO
    }
    found = [
        " → ".join(chain)
        for name in _pure_modules()
        for target, chain in _reached(product().modules[name]).items()
        if target.split(".")[1] in {"store", "host"} or target in does_io
    ]
    assert found == []


def test_no_modules_import_each_other() -> None:
    """The graph of imports has no cycle, with or without the imports inside functions."""
    assert product().cycles() == []
    assert product().cycles(deferred=True) == []
