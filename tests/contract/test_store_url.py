"""The forms of a store's URL, and what importing the storage layer costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import adjourn.store
from adjourn.errors import StoreError, UsageError
from adjourn.store import EMPTY, MemoryStore, SqliteStore, base, open_store
from adjourn.store.conformance.documents import entry


def test_memory_is_a_new_store_each_time() -> None:
    """`memory:` names nothing that could be shared."""
    one, other = open_store("memory:"), open_store("memory:")
    assert isinstance(one, MemoryStore)
    one.append("s", [entry(b"x")], expect=EMPTY)
    assert other.streams() == {}


@pytest.mark.parametrize("form", ["sqlite:{}", "sqlite://{}", "{}", "SQLITE:{}"])
def test_a_path_names_a_sqlite_store(tmp_path: Path, form: str) -> None:
    """With the scheme or without, `sqlite:///abs` included."""
    path = tmp_path / "a folder" / "50%.db"
    store = open_store(form.format(path))
    assert isinstance(store, SqliteStore)
    assert store.path == str(path)
    store.close()
    assert path.exists()


def test_relative_paths_are_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is `.aex/adjourn.db`, and leaving the folder later changes nothing."""
    monkeypatch.chdir(tmp_path)
    for url, name in ((".aex/adjourn.db", ".aex/adjourn.db"), ("sqlite:x.db", "x.db"), ("./a:b", "a:b")):
        store = open_store(url)
        assert isinstance(store, SqliteStore)
        assert store.path == str(tmp_path / name)
        monkeypatch.chdir("/")
        store.append("s", [entry(b"x")] * 2, expect=EMPTY)
        monkeypatch.chdir(tmp_path)
        store.close()
        assert (tmp_path / name).exists()


@pytest.mark.parametrize(
    "url", ["", "sqlite:", "folder/", "sqlite://host/path", "mysql://x", "redis:", "memory:name", "a\0b"]
)
def test_other_forms_are_wrong_usage(url: str) -> None:
    """The remedy names the forms that exist."""
    with pytest.raises(UsageError) as caught:
        open_store(url)
    assert "sqlite:PATH" in caught.value.remedy


def test_a_missing_driver_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PostgreSQL URL without psycopg says what to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError) as caught:
        open_store("postgresql://localhost/x")
    assert caught.value.remedy == "pip install 'adjourn[postgres]'"


def test_a_malformed_postgres_url_is_refused_without_showing_its_password() -> None:
    """Errors go to logs; passwords must not."""
    pytest.importorskip("psycopg")
    for url in ("postgresql://me:s3cret@host:port/x", "postgresql://me:s3cret@host/x?s3cret=1", "postgresql://[s3cret"):
        with pytest.raises((UsageError, StoreError)) as caught:
            open_store(url)
        assert "s3cret" not in str(caught.value)


def test_an_unreachable_server_is_named_without_the_password(tmp_path: Path) -> None:
    """A refused connection names the server and the next step."""
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError) as caught:
        open_store(f"postgresql://me:s3cret@/x?host={tmp_path}")
    assert "s3cret" not in str(caught.value)
    assert str(tmp_path) in caught.value.message
    assert caught.value.remedy


def _imported_by(program: str) -> set[str]:
    listing = "import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", f"{program}; {listing}"], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_no_driver() -> None:
    """Names are loaded when they are first used."""
    modules = _imported_by("import adjourn.store")
    assert not modules & {"sqlite3", "psycopg", "adjourn.store.sqlite", "adjourn.store.conformance"}


def test_opening_an_existing_sqlite_store_loads_little(tmp_path: Path) -> None:
    """The hot start of a hook imports the driver, hashes and threads, and nothing else that costs."""
    path = tmp_path / "adjourn.db"
    SqliteStore(path).close()
    plain = _imported_by("import sqlite3, threading, hashlib, msgspec")
    modules = _imported_by(f"from adjourn.store import open_store; open_store({str(path)!r}).close()")
    assert {name for name in modules - plain if not name.startswith("adjourn")} == set()


def test_the_conformance_suite_does_not_need_pytest() -> None:
    """It can be imported where neither pytest nor hypothesis is installed."""
    assert not _imported_by("import adjourn.store.conformance") & {"pytest", "hypothesis", "unittest"}


def test_the_public_names_are_these() -> None:
    """A name that comes or goes is a decision."""
    assert set(adjourn.store.__all__) == {
        "EMPTY",
        "Append",
        "Appended",
        "LATEST",
        "NO_REFS",
        "NO_SWAPS",
        "ZERO_HASH",
        "Entry",
        "Head",
        "MemoryStore",
        "OverlayStore",
        "PostgresStore",
        "SqliteStore",
        "Store",
        "Swap",
        "describe_server",
        "is_prepared",
        "migrate_postgres",
        "open_store",
    }
    assert all(getattr(adjourn.store, name) for name in adjourn.store.__all__ if name not in ("NO_REFS", "NO_SWAPS"))
    with pytest.raises(AttributeError):
        _ = adjourn.store.nothing  # type: ignore[attr-defined]  # that is the test


def test_every_schema_file_is_known() -> None:
    """`LATEST` is the number of the last file, in each dialect, without a gap."""
    names = {path.name for path in Path(base.__file__).parent.joinpath("schema").glob("*.sql")}
    expected = {f"{d}_{n:04}.sql" for d in ("sqlite", "postgres") for n in range(1, base.LATEST[d] + 1)}
    assert names == expected | {"partitions_copy.sql", "partitions_switch.sql"}
