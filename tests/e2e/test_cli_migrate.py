"""`adjourn store migrate`: a store of an older schema is named, and brought to the newest one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import adjourn.store
from adjourn.store import LATEST
from support.command_line import CommandLine

psycopg = pytest.importorskip("psycopg")

SCHEMA = Path(adjourn.store.__file__).parent / "schema"


def test_a_store_on_a_server_is_migrated_when_a_person_says_so(
    tmp_path: Path, new_postgres_url: Callable[[], str]
) -> None:
    """`doctor` names the command; before it, the store works as it is; after it, the command has nothing to do."""
    context, url = CommandLine(tmp_path, Path(f"{tmp_path}-config")), new_postgres_url()
    with psycopg.connect(url) as connection:
        connection.execute((SCHEMA / "postgres_0001.sql").read_bytes())
        connection.execute("UPDATE adjourn_schema SET version = 1")
        connection.execute("INSERT INTO adjourn_event VALUES ('s', 0, repeat('0', 64), '')")
    assert "then: adjourn store migrate" in context.run("doctor", "--store", url).out
    done = context.ok("store", "migrate", "--store", url)
    assert done.out.startswith("postgresql://")
    assert done.out.endswith(" has schema 2\n")
    assert "adjourn store migrate" not in context.run("doctor", "--store", url).out
    assert context.ok("store", "migrate", "--store", url, "--partitions", "8").out.endswith("; 1 event copied\n")
    assert context.ok("store", "migrate", "--store", url, "--json").json["copied"] == 0


def test_a_file_has_the_newest_schema_already(tmp_path: Path) -> None:
    """A SQLite store is brought there by being opened; where there is none, the command makes none."""
    context = CommandLine(tmp_path, Path(f"{tmp_path}-config"))
    assert "no store" in context.run("store", "migrate").err
    assert not (tmp_path / ".aex").exists()
    adjourn.store.open_store(str(tmp_path / "history.db")).close()
    said = context.ok("store", "migrate", "--store", "history.db")
    assert said.out == f"history.db has schema {LATEST['sqlite']}\n"
    refused = context.run("store", "migrate", "--store", "history.db", "--partitions", "8")
    assert (refused.code, "only a PostgreSQL store has partitions" in refused.err) == (2, True)
