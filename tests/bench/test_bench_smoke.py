"""The benchmarks run, and write what they measured. Times are nobody's business here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
        assert all(any(isinstance(cell, float) for cell in row) for row in table["rows"]), table["title"]
    assert {"command", "date", "Python", "SQLite", "load at the start", "load at the end"} <= set(
        body["machine"]
    )
    assert not list(tmp_path.glob("adjourn-bench-*"))


def test_a_document_is_of_all_sections(tmp_path: Path) -> None:
    """--write with --only would leave a document with holes: wrong usage."""
    command = [sys.executable, str(RUN), "--only", "decide", "--write", str(tmp_path / "b.md")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert not list(tmp_path.iterdir())
