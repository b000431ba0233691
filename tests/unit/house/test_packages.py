"""Imports name the module that defines a name. A package's `__init__` says what the package is for, and no more."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from house import Source

SOURCE = Source(Path(__file__).parents[3] / "src")
PUBLIC = {
    "adjourn",
    "adjourn.aex",
    "adjourn.store",
    "adjourn.langgraph",
    "adjourn.store.conformance",
    "adjourn.testing",
}
"""Packages with names for users."""
PACKAGES = sorted(name for name, module in SOURCE.modules.items() if module.is_package)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_it_is_for(package: str) -> None:
    """The docstring of each package is a sentence at least, and only public packages have names of other modules."""
    module = SOURCE.modules[package]
    text = ast.get_docstring(module.tree) or ""
    assert len(text.split()) >= 4
    assert text.rstrip().endswith((".", ")"))
    assert package in PUBLIC or not re.search(r"__getattr__|__all__", module.text)


def test_the_source_imports_nothing_through_a_public_package() -> None:
    """The modules of adjourn import from the module that defines a name: a public package would hide what an import loads."""
    past = [
        f"{module.name}: from {node.module} import {alias.name}"
        for module in SOURCE.modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.module in PUBLIC and module.name not in PUBLIC
        for alias in node.names
        if f"{node.module}.{alias.name}" not in SOURCE.modules and alias.name != "__version__"
    ]
    assert not past, "\n".join(past)


def test_private_modules_stay_in_their_package() -> None:
    """A module whose name begins with an underscore is imported only by modules of its package."""
    past = [
        f"{module.name} imports {target}"
        for module in SOURCE.modules.values()
        for target in SOURCE.imports_of(module, deferred=True)
        if (cut := target.find("._")) >= 0 and not target.endswith("__") and not module.name.startswith(target[:cut])
    ]
    assert not past, "\n".join(past)
