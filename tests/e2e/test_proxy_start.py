"""The proxy starts only with valid options and a valid policy, and logs to stderr."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.proxy import NEW, Client, ProxyWorkspace, encode, refused
from support.requirements import requirement

# --- the start


@requirement("D6")
@pytest.mark.parametrize("where", ["policy", "contract"])
def test_a_text_with_errors_stops_the_start_with_every_diagnostic(tmp_path: Path, where: str) -> None:
    """An invalid policy or contract stops the start, and each error is printed with its line."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        if where == "policy":
            work.write_policy("allow echo", "alow file.*", "deny [", "budget calls=many")
            client, source = work.client(greet=False), ".aex/policy.aex"
        else:
            (work.root / "c.aex").write_text('task c v0\ngoal "g"\nuse echo\nuze x\n\nbudget calls=many\nreturn 1\n')
            client, source = work.client("--contract", "c.aex", greet=False), "c.aex"
        assert client.ended() == 1
        assert client.received == []
        errors = client.stderr()
        for line in (4, 6):
            assert f"{source}:{line}" in errors
        assert not work.tasks_exist()
        assert work.executed() == []


@requirement("D6")
def test_without_a_policy_nothing_starts(tmp_path: Path) -> None:
    """Without a policy the proxy exits with 1 and answers nothing."""
    with ProxyWorkspace(tmp_path) as work:
        client = work.client(greet=False)
        assert client.ended() == 1
        assert "no policy" in client.stderr()
        assert client.received == []


@requirement("D6")
@pytest.mark.parametrize("named", ["--policy", "--contract"])
def test_a_file_that_is_not_there_stops_the_start(tmp_path: Path, named: str) -> None:
    """A policy or contract file that does not exist stops the start."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client(named, "absent.aex", greet=False)
        assert client.ended() == 1
        assert "absent.aex" in client.stderr()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--polcy", "x"], "unknown option --polcy"),
        (["--errors", "loud"], "--errors takes tool or jsonrpc"),
        (["--tool-names", "x"], "--tool-names takes"),
        (["--confirm-timeout", "soon"], "--confirm-timeout"),
        (["--confirm-timeout", "²"], "--confirm-timeout"),
        (["--auto-confirm=yes"], "takes no value"),
        (["--store", "memory:"], ""),
    ],
)
def test_a_command_line_that_is_not_well_formed_is_refused(tmp_path: Path, options: list[str], says: str) -> None:
    """An unknown option or an invalid value exits with 2 and names it."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client(*options, greet=False)
        if says:
            assert client.ended() == 2
            assert says in client.stderr()
            assert work.forwarded() == []
        else:
            client.greet()
            assert refused(client.call("echo"))


def test_the_upstream_may_be_given_as_one_text_or_without_dashes(tmp_path: Path) -> None:
    """The server command may be words after `--`, words alone, or the value of --upstream."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        command = work.command()
        behind = command[command.index("--") + 1 :]
        for words in (["--upstream", " ".join(behind)], behind, [f"--upstream={' '.join(behind)}"]):
            client = Client([*command[: command.index("--")], *words], work.root, work.environment, NEW, "tester", {})
            work.clients.append(client)
            client.greet()
            assert not refused(client.call("echo"))
            assert client.close() == 0


# --- the log


def test_the_log_is_lines_for_people(tmp_path: Path) -> None:
    """The log on stderr has one line for each event and each rule, all with the program's name."""
    with ProxyWorkspace(
        tmp_path, "allow echo", "deny secrets.*", "budget calls=5", "confirm before file.write"
    ) as work:
        client = work.client()
        client.call("echo")
        client.call("secrets.read")
        client.close()
        lines = client.stderr().splitlines()
        assert all(line.startswith("adjourn: ") for line in lines)
        shown = {line.split()[1] for line in lines}
        assert {
            "policy",
            "allow",
            "deny",
            "confirm",
            "budget",
            "task",
            "tool.allowed",
            "tool.denied",
            "ending",
        } <= shown


def test_the_log_is_json_on_request(tmp_path: Path) -> None:
    """With --log-json, each line of the log is a JSON object with event, data, timestamp and level."""
    with ProxyWorkspace(tmp_path, "allow echo", "budget calls=5") as work:
        client = work.client("--log-json")
        client.call("echo")
        client.call("secrets.read")
        client.send(b"garbage \xff\n")
        client.call("echo", {"é": "\ud800".encode("utf-8", "replace").decode()})
        client.close()
        bodies = [json.loads(line) for line in client.stderr().splitlines()]
        assert all(list(body) == ["event", "data", "timestamp", "level"] for body in bodies)
        assert {body["level"] for body in bodies} == {"info", "warning"}
        assert {"tool.allowed", "tool.denied", "message.refused", "ending"} <= {body["event"] for body in bodies}
        assert encode(bodies)


def test_a_log_that_nobody_reads_does_not_stop_the_work(tmp_path: Path) -> None:
    """A client may take our stderr through a pipe and never examine it."""
    pipe = tmp_path / "stderr"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDWR)
    with ProxyWorkspace(tmp_path, "allow *") as work:
        quiet = ["sh", "-c", 'exec "$@" 2>"$0"', str(pipe), *work.command()]
        client = Client(quiet, work.root, work.environment, NEW, "tester", {})
        work.clients.append(client)
        client.greet()
        for _ in range(40):
            calls = [client.call_message("echo" if n % 2 else "aex.nothing") for n in range(50)]
            client.post(*calls)
            client.answer(calls[-1]["id"])
            client.forget()
        assert client.close() == 0
    os.close(held)
