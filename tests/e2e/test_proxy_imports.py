"""What a proxy has loaded when it answers its first call: nothing heavy."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.proxy import MODERN, NEW, ProxyWorkspace, refused

HEAVY = {
    "click",
    "asyncio",
    "pydantic",
    "rich",
    "tomlkit",
    "cryptography",
    "starlette",
    "uvicorn",
    "jinja2",
    "mcp",
    "anyio",
    "psycopg",
}


@pytest.mark.parametrize("era", [NEW, MODERN])
def test_nothing_heavy_is_imported_until_the_first_call_is_answered(tmp_path: Path, era: str) -> None:
    """A proxy that has answered its first call has imported no heavy package."""
    with ProxyWorkspace(tmp_path, "allow echo", "budget calls=5", "confirm before file.write") as work:
        client = work.client(era=era, python=("-X", "importtime"))
        client.tools()
        assert not refused(client.call("echo", {"a": 1}))
        client.kill()
        loaded = {
            line.rpartition("|")[2].strip() for line in client.stderr().splitlines() if line.startswith("import time:")
        }
        assert {"adjourn.proxy.main", "msgspec", "sqlite3"} <= loaded
        packages = {module.partition(".")[0] for module in loaded}
        assert packages & HEAVY == set()
