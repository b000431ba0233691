"""What only adjourn may know reaches no program that it starts, and nothing that it says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import AdjournError
from adjourn.store import open_store
from support.hooks import HookWorkspace
from support.proxy import ECHO, NEW, ProxyWorkspace, refused, run

psycopg = pytest.importorskip("psycopg")

SECRET = "hunter2"  # nobody's
URL = f"postgresql://me:{SECRET}@127.0.0.1:1/nowhere?connect_timeout=2"
TORN = (
    f"postgresql://me:a@{SECRET}@127.0.0.1:1/nowhere",
    f"postgresql://me:a/{SECRET}@127.0.0.1:1/nowhere",
    f"postgresql://me:a?{SECRET}@127.0.0.1:1/nowhere",
    f"postgresql://me:a%{SECRET}@127.0.0.1:1/nowhere",
    f"postgresql://me:{SECRET}@127.0.0.1:x/nowhere",
    f"postgresql:me:{SECRET}@127.0.0.1",
    f"sqlite://me:{SECRET}@host/x",
    f"mysql://me:{SECRET}@host/x",
)


def test_an_upstream_gets_none_of_our_variables(tmp_path: Path) -> None:
    """What else the client sets for it, it gets."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        script = 'env > env.txt; exec "$@"'
        echo = [sys.executable, "-I", "-S", str(ECHO), str(work.upstream)]
        given = {"ADJOURN_STORE": str(tmp_path / "kept.db"), "ADJOURN_TASK": "t", "TOKEN_OF_SERVER": "x"}
        client = work.client(upstream=["sh", "-c", script, "sh", *echo], era=NEW, env=given)
        assert not refused(client.call("echo"))
        got = (work.root / "env.txt").read_text()
        assert "TOKEN_OF_SERVER=x" in got
        assert "ADJOURN_" not in got
        assert (tmp_path / "kept.db").exists()


def test_a_password_is_in_nothing_that_is_said(tmp_path: Path) -> None:
    """Not in errors, reports, JSON or findings, also where it makes the URL one that cannot be read."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        for url in (URL, *TORN):
            environment = work.environment | {"ADJOURN_STORE": url}
            for command in (("status",), ("status", "--json"), ("doctor",), ("tasks",)):
                done = run(*command, cwd=work.root, env=environment)
                assert SECRET not in done.out + done.err, (url, command)
                assert done.code or command == ("doctor",), (url, command)
        client = work.client(env={"ADJOURN_STORE": URL})
        assert refused(client.call("deploy.run"))
        client.close()
        assert "store.error" in client.stderr()
        assert SECRET not in client.stderr()
        assert not any(SECRET.encode() in line for line in client.received)


def test_a_password_on_a_command_line_is_refused(tmp_path: Path) -> None:
    """By the proxy, the hook and every other command, with what to do instead."""
    with HookWorkspace(tmp_path, "allow *") as work:
        for command in (
            ("status", "--store", URL),
            ("proxy", "--store", URL, "--", "true"),
            ("proxy", f"--store={URL}", "--", "true"),
        ):
            done = run(*command, cwd=work.root, env=work.environment)
            assert (done.code, SECRET in done.err + done.out) == (2, False)
            assert "ADJOURN_STORE" in done.err
        said = work.ask("Read", None, "--store", URL)
        assert (said.code, SECRET in said.err) == (2, False)


def test_what_the_driver_says_is_without_the_password(new_postgres_url: Callable[[], str]) -> None:
    """A server that refuses a login, a name that is none."""
    place = new_postgres_url().partition("@")[2].partition("host=")[2].partition("&")[0]
    urls: list[Any] = [
        f"postgresql://nobody:{SECRET}@/postgres?host={place}",
        f"postgresql://adjourn:{SECRET}@/nowhere?host={place}",
        f"postgresql://me:{SECRET}@nowhere.invalid/x?connect_timeout=2",
    ]
    for url in urls:
        with pytest.raises(AdjournError) as caught:
            open_store(url)
        assert SECRET not in str(caught.value)


def test_an_upstream_finds_no_password_of_the_store_in_the_proxys_environment(tmp_path: Path) -> None:
    """Under /proc the environment that the proxy began with does not have it any more when its server begins."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        script = 'tr "\\0" "\\n" < /proc/$PPID/environ > env.txt || echo none > env.txt; exec "$@"'
        echo = [sys.executable, "-I", "-S", str(ECHO), str(work.upstream)]
        client = work.client(upstream=["sh", "-c", script, "sh", *echo], era=NEW, env={"ADJOURN_STORE": URL})
        client.call("echo")
        got = (work.root / "env.txt").read_text()
        assert got
        assert SECRET not in got
