"""Any part of the package can be the first that a program loads: an import in a circle shows only from some beginnings."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, os, sys
import adjourn

folder = os.path.dirname(adjourn.__file__)
files = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(".py")]
modules = [os.path.relpath(file, os.path.dirname(folder))[:-3].replace("/", ".").removesuffix(".__init__") for file in files]

def in_a_child(work):
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException as error:
            print(f"{work.__doc__}: {error!r}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)

def first(name):
    def load():
        importlib.import_module(name)
    load.__doc__ = name
    return load

def named(name):
    def load():
        getattr(adjourn, name)
    load.__doc__ = f"adjourn.{name}"
    return load

for name in ("click", "mcp", "anyio", "cryptography.hazmat.primitives.asymmetric.ed25519", "psycopg", "anthropic", "openai"):
    importlib.import_module(name)  # once, for all children
for name in sorted(modules):
    in_a_child(first(name))
for name in adjourn.__all__:
    in_a_child(named(name))
"""


@pytest.mark.extra("gateway")
@pytest.mark.slow  # seven hundred processes; that there is no circle is checked in test_import_graph.py, too
def test_any_module_and_any_public_name_can_be_loaded_first() -> None:
    """In a process that has loaded nothing else of adjourn, each import succeeds."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "", done.stdout
