"""The benchmarks run, and their figures reach the page. Times are nobody's business here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import page
import pytest
from tables import Table

pytestmark = pytest.mark.timeout(600)  # the run of all sections is the set-up of whichever test comes first
SECONDS = 550
HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
PAGE = HERE / "RESULTS.md"


def _run(program: str, *words: str) -> str:
    command = [sys.executable, str(HERE / program), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run of every section has left `stdout` and `run.json`."""
    folder = tmp_path_factory.mktemp("bench")
    options = ("--tiny", "--folder", str(folder), "--json", str(folder / "run.json"), "--beside", f"twin={SOURCE}")
    printed = _run("run.py", *options)
    (folder / "stdout").write_text(printed, "utf-8")
    return folder


@pytest.fixture(scope="module")
def tables(folder: Path) -> dict[str, Table]:
    body = json.loads((folder / "run.json").read_text("utf-8"))
    assert {"command", "date", "Python", "SQLite", "load at the start", "load at the end"} <= set(body["machine"])
    tables = {row["title"]: Table(**row) for row in body["tables"]}
    assert len(tables) == len(body["tables"])
    return tables


def test_every_section_prints_its_tables(folder: Path, tables: dict[str, Table]) -> None:
    """All tables appear on the terminal and in the JSON, with a value in every row, and no file stays behind.

    A ratio of added times may have none: in so few calls a pass-through can be faster than nothing.
    """
    printed = (folder / "stdout").read_text("utf-8")
    for title, table in tables.items():
        assert title in printed
        assert table.rows, title
        empty = [row[0] for row in table.rows if not any(isinstance(cell, int | float) for cell in row)]
        assert {str(name).partition(",")[0] for name in empty} <= {"p50 over direct", "  ±"}, title
    assert not list(folder.glob("adjourn-bench-*"))


@pytest.mark.parametrize("title", ["Relays: a reading call", "Relays: a call with effects"])
def test_relays_are_compared_with_their_peers(tables: dict[str, Table], title: str) -> None:
    """A relay that does more calls more functions, one of the same source as many; percentiles are in order; a peer is 1 of itself."""
    table = tables[title]
    assert table.columns == ["", "direct", "pass-through", "floor", "adjourn", "twin"]
    rows: dict[Any, list[Any]] = {row[0]: row[1:] for row in table.rows}
    assert table.rows[0][0] == "Python calls per tool call"
    _, less, floor, most, twin = rows["Python calls per tool call"]
    assert 0 < less < floor < most
    assert twin == pytest.approx(most, rel=0.1)
    for p50, p90, p99 in zip(rows["p50, µs"], rows["p90, µs"], rows["p99, µs"], strict=True):
        assert 0 < p50 <= p90 <= p99
    assert rows["calls/s, pass-through = 1"][1] == rows["calls/s, floor = 1"][2] == 1


def test_store_operations_are_compared_with_their_floors(tables: dict[str, Table]) -> None:
    """Every operation calls something, takes time, and is beside a floor that takes time."""
    rows = tables["Stores: operations beside their floors"].rows
    assert len(rows) >= 8
    for name, calls, *cells in rows:
        assert calls != 0, name
        ours, floor, ratio, error, processor = (float(cell or 0) for cell in cells)
        assert min(ours, floor, ratio, processor) > 0, name
        assert error >= 0, name


def test_starts_are_compared_with_python_s(tables: dict[str, Table]) -> None:
    """The first row is the floor, and 1 of itself; commands that do more load more modules."""
    first, *rows = tables["Starts"].rows
    assert first[3] == 1
    modules: dict[Any, Any] = {row[0]: row[-1] for row in rows}
    version, hook, code = (
        modules[f"`adjourn {name}"] for name in ("--version`", "hook`: a read", "code`, to `initialize`")
    )
    assert version < hook < code


def test_open_pages_lose_no_update_and_the_server_stays_small(tables: dict[str, Table]) -> None:
    """While tasks are written, every open page comes to show the last state of all that it is about."""
    found: dict[Any, Any] = {row[0]: row[1] for row in tables["The web page: open pages while tasks are written"].rows}
    assert found["tasks that are written"] == 8
    assert found["open pages"] == 6
    assert found["pages that lost the last state"] == 0
    assert 0 < found["memory of the server (PSS), most, MiB"] <= 150


def test_the_gateway_takes_turns_with_its_peers(tables: dict[str, Table]) -> None:
    """Each table of calls has the bare relay, which is 1 of itself, and both ways through each gateway, and the memory of each."""
    titles = [
        title
        for title in tables
        if title.startswith("The gateway: ") and "sessions" not in title and "people" not in title
    ]
    assert len(titles) == 5
    for title in titles:
        table = tables[title]
        rows: dict[Any, dict[str, Any]] = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
        assert list(rows)[:5] == ["bare", "tasks", "one task", "twin tasks", "twin one task"]
        assert rows["bare"]["rate, bare = 1"] == rows["bare"]["CPU, bare = 1"] == 1
        assert all(row["calls/s"] > 0 and row["p99 ms"] >= row["p50 ms"] > 0 for row in rows.values())
        assert all(row["RSS MiB"] > 1 for row in rows.values())


def test_no_session_of_a_client_stays_behind(tables: dict[str, Table]) -> None:
    """Idle sessions take memory; of those that were ended, or that nobody used any more, the gateway has none."""
    rows: dict[Any, list[Any]] = {row[0]: row[1:] for row in tables["The gateway: sessions of clients"].rows}
    assert [rows[name][0] for name in ("idle", "with an open stream")] == [10, 10]
    assert [rows[name][3] for name in ("ended by DELETE", "left, and ended as unused")] == [0, 0]
    assert all(row[4] > 1 for row in rows.values())


def test_a_run_fills_the_page_and_draws_the_plots(folder: Path, tables: dict[str, Table]) -> None:
    """The page has a place for every table of a run; other lines stay; the plots are XML, and those that it shows."""
    before = PAGE.read_text("utf-8")
    copy = folder / "page.md"
    copy.write_text(before, "utf-8")
    _run("page.py", str(folder / "run.json"), "--page", str(copy), "--assets", str(folder))
    after = copy.read_text("utf-8")
    assert [line for line in before.splitlines() if line.startswith("#")] == [
        line for line in after.splitlines() if line.startswith("#")
    ]
    for title, table in tables.items():
        assert f"<!-- figures: {title} -->\n\n{table.markdown()}" in after
    pictures = {path.name for path in folder.glob("*.svg")}
    assert pictures == {part.partition(")")[0] for part in after.split("](../../docs/assets/")[1:]}
    for name in pictures:
        ET.parse(folder / name)
        assert (PAGE.parents[2] / "docs" / "assets" / name).exists()


def test_figures_without_a_place_are_no_page() -> None:
    """A table that the page does not name is refused; one that a run does not have stays as it is."""
    text = "a\n<!-- figures: One -->\nold\n<!-- end of figures -->\n<!-- figures: Two -->\nkept\n<!-- end of figures -->\nb\n"
    assert page.filled(text, {"One": "new\n"}) == text.replace("old\n", "\nnew\n\n")
    with pytest.raises(SystemExit, match="Three"):
        page.filled(text, {"Three": "new\n"})


def test_the_table_of_what_is_sent_again_is_the_one_of_the_page() -> None:
    """It counts bytes and times nothing, so every run prints the same: each row of it is on the page."""
    rows = [line for line in _run("retold.py").splitlines() if line.startswith("|")]
    assert len(rows) == 14
    assert "\n".join(rows) in PAGE.read_text("utf-8")
