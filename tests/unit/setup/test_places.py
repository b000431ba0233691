"""docs/how-to/clients.md names the files of every client that `init` knows."""

from __future__ import annotations

import re
from pathlib import Path

from adjourn.setup.places import CLIENTS

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "clients.md"
_ROW = re.compile(r"^\|([^|`]+)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)


def test_the_page_has_every_client_with_its_files() -> None:
    """One row a client, in the order of the table in the code; each file is named in its column."""
    section = PAGE.read_text(encoding="utf-8").partition("## Where settings are")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in row] for row in _ROW.findall(section)][2:]
    assert [name for name, _, _ in rows] == [client.name for client in CLIENTS]
    for client, (_, project, home) in zip(CLIENTS, rows, strict=True):
        for paths, told in ((client.workspace, project), (client.home, home)):
            assert bool(paths) == bool(told), client.name
            names = {path.rpartition("/")[2] for path in paths}
            assert all(f"{name}`" in told for name in names), client.name
            assert all(f"{path.split('/')[0]}" in told for path in paths if "/" in path), client.name
