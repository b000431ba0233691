"""A store restored from a backup, by the commands of docs/how-to/operate.md: all are refused until an administrator accepts the loss once."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from conftest import PostgresServer
from support.gateway import GatewayWorkspace, text_of
from support.proxy import ProxyWorkspace, adjourn, run
from support.terminal import at_terminal

HOW_TO = (Path(__file__).parents[2] / "docs/how-to/operate.md").read_text(encoding="utf-8")
SECTION = HOW_TO.partition("## Back up and restore")[2].partition("\n## ")[0]
BACK_UP, RESTORE, ACCEPT = re.findall(r"^\$ (.+)$", SECTION, re.MULTILINE)
BACK_UP_SQLITE = next(re.finditer(r'`sqlite3 (\S+) "\.backup (\S+)"`', SECTION))


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a database of its own."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute("CREATE DATABASE restored")
        yield f"postgresql://adjourn@/restored?host={postgres_server.folder}"
        admin.execute("DROP DATABASE restored WITH (FORCE)")


def shell(line: str, folder: Path, environment: Mapping[str, str], programs: Path) -> None:
    """Run a line of the how-to."""
    path = f"{programs}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", line], cwd=folder, env={**environment, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (line, done.stdout, done.stderr)


def written(work: GatewayWorkspace, text: str) -> str:
    """What a client of the gateway gets for a call with an effect."""

    async def write(client: Client) -> Any:
        return await client.call_tool("write", {"text": text})

    return text_of(work.run(write))


def accepting(since: str) -> list[str]:
    return re.sub(r"\d{4}-\S+$", since, ACCEPT).split()[1:]


def executed(client: Any, text: str) -> bool:
    """Whether a call through a proxy was made. A refusal has to say whom to ask."""
    result = client.call("echo", {"text": text})["result"]
    if not result.get("isError"):
        return True
    assert "top, and ask an administrator" in result["content"][0]["text"]
    return False


@pytest.mark.extra("gateway")
def test_all_work_on_after_an_administrator_accepted_the_loss_once(
    tmp_path: Path, database: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway's clients and a developer with keys of their own are refused, and continue after one signed acceptance."""
    monkeypatch.setenv("ADJOURN_STORE", database)
    programs = postgres_server.programs
    with (
        GatewayWorkspace(tmp_path / "gateway", "allow *") as work,
        ProxyWorkspace(tmp_path / "developer", "allow *") as developer,
    ):

        def developers_call(task: str) -> bool:
            client = developer.client("--store", database, "--task", task)
            made = executed(client, task)
            client.close()
            return made

        assert written(work, "before") == "written"
        assert developers_call("theirs")
        work.stop()
        shell(BACK_UP, work.root, work.environment, programs)
        since = datetime.now(UTC).isoformat()
        work.start()
        assert written(work, "lost") == "written"
        assert developers_call("theirs")
        assert developers_call("begun-later")
        work.stop()

        shell(RESTORE, work.root, work.environment, programs)
        work.start()
        refused = written(work, "refused")
        assert "top, and ask an administrator" in refused
        assert not re.search(r"host|/tmp|postgres|127\.0", refused)
        work.stop()
        assert not developers_call("theirs")
        assert not developers_call("begun-later")
        assert run("verify", cwd=work.root, env=work.environment).code == 1

        command = [sys.executable, "-m", "adjourn", *accepting(since)]
        without = at_terminal(command, cwd=work.root, env=work.environment, terminal=False)
        client = developer.client("--store", database)
        inside = at_terminal(
            [*command, "--store", database], cwd=developer.root, env=developer.environment, apart=False
        )
        client.close()
        assert [(done.returncode, "speaks for a person" in done.stderr) for done in (without, inside)] == [
            (3, True)
        ] * 2
        accepted = run(*accepting(since), cwd=work.root, env=work.environment)
        assert accepted.code == 0, accepted
        work.start()
        assert written(work, "after") == "written"
        work.stop()
        assert work.called() == ["before", "lost", "after"]
        verified = run("verify", cwd=work.root, env=work.environment)
        assert verified.code == 0
        assert f"that events since {since[:19]}" in verified.out
        found = re.findall(r"warning loss-accepted · (event|$|\S+)", verified.out)
        assert len(found) == 2  # of the store, and of the gateway's task

        assert not developers_call("theirs")  # not yet: their machine does not know the key
        public = run("keys", "show", cwd=work.root, env=work.environment).first
        assert adjourn(developer, "keys", "trust", "admin", public).code == 0
        assert developers_call("theirs")
        assert developers_call("begun-later")
        assert developer.executed() == ["echo"] * 5
        assert run("verify", "--store", database, cwd=developer.root, env=developer.environment).code == 0
        shown = run("log", "theirs", "--store", database, cwd=developer.root, env=developer.environment).out
        assert "accepted the loss of events up to 10" in shown, shown


def test_what_is_cut_after_an_acceptance_is_refused(tmp_path: Path) -> None:
    """Of a SQLite copy an administrator accepts a loss; a second restore of the same copy is a history that was cut."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        source, copy = (work.root / name for name in BACK_UP_SQLITE.groups())

        def call() -> bool:
            client = work.client("--task", "t")
            made = executed(client, "x")
            client.close()
            return made

        def restore() -> None:
            for path in source.parent.glob("adjourn.db*"):
                path.unlink()
            shutil.copy(copy, source)

        assert call()
        with closing(sqlite3.connect(source)) as store, closing(sqlite3.connect(copy)) as kept:
            store.backup(kept)
        since = datetime.now(UTC).isoformat()
        assert call()
        restore()
        assert not call()
        late = run(*accepting(datetime.now(UTC).isoformat()), cwd=work.root, env=work.environment)
        assert (late.code, "history-cut" in late.out) == (1, True)
        assert not call()
        assert run(*accepting(since), cwd=work.root, env=work.environment).code == 0
        assert call()
        assert call()
        with closing(sqlite3.connect(source)) as store:
            records = store.execute("SELECT name, value FROM ref WHERE name LIKE 'restored/%'").fetchall()
            blobs = store.execute("SELECT * FROM blob").fetchall()
        restore()
        with closing(sqlite3.connect(source, isolation_level=None)) as store:  # the acceptance of before is put back
            store.executemany("INSERT INTO ref (name, value) VALUES (?, ?)", records)
            store.executemany(f"INSERT OR IGNORE INTO blob VALUES ({','.join('?' * len(blobs[0]))})", blobs)
        assert not call()
        assert run("verify", cwd=work.root, env=work.environment).code == 1
