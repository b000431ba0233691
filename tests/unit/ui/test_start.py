"""Nobody pays for the page who does not open it."""

from __future__ import annotations

import subprocess
import sys

from house import product

COMMANDS = {"adjourn.cli.working.serve"}
HEAVY = {"anyio", "jinja2", "markupsafe", "sse_starlette", "starlette", "uvicorn"}


def test_only_its_commands_import_the_page() -> None:
    """No module outside the page imports a module of it, but those of `adjourn ui` and `adjourn serve`."""
    source = product()
    importers = {
        name
        for name, module in source.modules.items()
        if not name.startswith("adjourn.ui")
        and any(target.startswith("adjourn.ui") for target in source.imports_of(module, deferred=True))
    }
    assert importers == COMMANDS


def test_the_help_of_the_commands_loads_no_server() -> None:
    """The commands can be listed and explained without the extra."""
    program = f"import sys, {', '.join(sorted(COMMANDS))}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {name.partition(".")[0] for name in done.stdout.split()} & HEAVY == set()
