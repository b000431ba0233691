"""Every backend keeps the store's promises."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from adjourn.store import Store
from adjourn.store.conformance import StoreConformance
from adjourn.store.conformance.documents import Opener
from adjourn.store.memory import MemoryStore, OverlayStore
from adjourn.store.postgres import PostgresStore
from adjourn.store.sqlite import SqliteStore

CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"


class TestMemory(StoreConformance):
    examples = 500 if CAMPAIGN else 20

    def make_store(self) -> Store:
        return MemoryStore()


class TestOverlay(StoreConformance):
    examples = 500 if CAMPAIGN else 20

    def make_store(self) -> Store:
        return OverlayStore(MemoryStore())


class TestSqlite(StoreConformance):
    examples = 500 if CAMPAIGN else 20
    appends = 200 if CAMPAIGN else 20

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.paths = (tmp_path / f"{number}.db" for number in count())

    def make_store(self) -> Store:
        return SqliteStore(next(self.paths))

    def opener(self, store: Store) -> Opener | None:
        assert isinstance(store, SqliteStore)
        return partial(SqliteStore, store.path)


class TestPostgres(StoreConformance):
    examples = 200 if CAMPAIGN else 10
    appends = 200 if CAMPAIGN else 20

    @pytest.fixture(autouse=True)
    def _server(self, new_postgres_url: Callable[[], str]) -> None:
        self.new_url = new_postgres_url
        self.urls: dict[int, str] = {}

    def make_store(self) -> Store:
        url = self.new_url()
        store = PostgresStore(url)
        self.urls[id(store)] = url
        return store

    def opener(self, store: Store) -> Opener | None:
        return partial(PostgresStore, self.urls[id(store)])
