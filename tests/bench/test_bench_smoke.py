"""The benchmarks run, and write what they measured. Times are nobody's business here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

RUN = Path(__file__).with_name("run.py")


def test_every_section_runs_and_is_written_down(tmp_path: Path) -> None:
    """All tables appear on the terminal, in the JSON and in the Markdown, with a value in every row."""
    document, values = tmp_path / "benchmarks.md", tmp_path / "values.json"
    command = [sys.executable, str(RUN), "--tiny", "--folder", str(tmp_path)]
    done = subprocess.run(
        [*command, "--json", str(values), "--write", str(document)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    body = json.loads(values.read_text(encoding="utf-8"))
    titles = [table["title"] for table in body["tables"]]
    assert len(titles) == len(set(titles)) >= 10
    written = document.read_text(encoding="utf-8")
    for table in body["tables"]:
        assert table["title"] in done.stdout
        assert f"## {table['title']}\n" in written
        assert table["rows"]
        assert all(any(isinstance(cell, int | float) for cell in row) for row in table["rows"]), table[
            "title"
        ]
    _check_relays(body["tables"])
    _check_stores(next(table for table in body["tables"] if table["title"].startswith("Stores: operations")))
    assert {"command", "date", "Python", "SQLite", "load at the start", "load at the end"} <= set(
        body["machine"]
    )
    assert not list(tmp_path.glob("adjourn-bench-*"))


def _check_relays(tables: list[dict[str, Any]]) -> None:
    """A relay that does more calls more functions; percentiles are in order."""
    found = [table for table in tables if table["title"].startswith("Relays: a ")]
    assert len(found) == 2
    for table in found:
        assert table["columns"] == ["", "direct", "pass-through", "floor", "adjourn"]
        rows = {row[0]: row[1:] for row in table["rows"]}
        assert table["rows"][0][0] == "Python calls per tool call"
        _, less, floor, most = rows["Python calls per tool call"]
        assert 0 < less < floor < most
        for p50, p90, p99 in zip(rows["p50, µs"], rows["p90, µs"], rows["p99, µs"], strict=True):
            assert 0 < p50 <= p90 <= p99


def _check_stores(table: dict[str, Any]) -> None:
    """Every operation calls something, takes time, and is beside a floor that takes time."""
    assert len(table["rows"]) >= 8
    for name, *cells in table["rows"]:
        calls, ours, floor, ratio, spread, processor = cells
        assert min(calls, ours, floor, ratio, processor) > 0, name
        assert spread >= 0, name


def test_a_document_is_of_all_sections(tmp_path: Path) -> None:
    """--write with --only would leave a document with holes: wrong usage."""
    command = [sys.executable, str(RUN), "--only", "decide", "--write", str(tmp_path / "b.md")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert not list(tmp_path.iterdir())
