"""When nothing can be written, nothing with an effect is called; and what no call may touch, whatever the policy says."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adjourn.log.chain import verify_chain
from adjourn.store import open_store
from support.in_process import MODERN, NEW, Message, ProxyWorkspace, refused, text_of

# --- the store is down


@contextmanager
def _tmpfs(path: Path, options: str) -> Iterator[None]:
    """A small file system of its own; skips where that is not permitted."""
    path.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"mounting a tmpfs is not permitted here: {mounted.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.parametrize("era", [NEW, MODERN])
def test_without_a_store_reads_pass_and_effects_are_refused_with_the_reason(tmp_path: Path, era: str) -> None:
    """When the store cannot be written, read-only calls pass, and each other call is refused with the reason."""
    with ProxyWorkspace(tmp_path, "allow *", "deny secrets.*", "confirm before network.fetch") as work:
        (work.root / "file").write_text("in the way")
        client = work.client("--store", "file/adjourn.db", era=era)
        assert client.tools()
        answer = client.call("echo", {"n": 1})
        assert refused(answer)
        for part in ('tool "echo" was not called', "could not be recorded", "file/adjourn.db"):
            assert part in text_of(answer)
        assert not refused(client.call("file.read"))
        for tool in ("secrets.read", "network.fetch", "aex.checkpoint"):
            assert refused(client.call(tool, {"name": "a"}))
        for tool, path in (("file.write", ".aex/policy.aex"), ("file.read", str(work.config))):
            assert "protected, whatever the policy says" in text_of(client.call(tool, {"path": path}))
        private = client.ask("resources/read", {"uri": str(work.config)})
        assert "protected, whatever the policy says" in private["error"]["message"]
        assert work.executed() == ["file.read"]
        assert "store.error" in client.stderr()
        (work.root / "file").unlink()
        assert not refused(client.call("echo", {"n": 2}))  # the store can be opened now
        assert client.close() == 0
        assert work.executed() == ["file.read", "echo"]


def test_with_a_budget_nothing_passes_uncounted(tmp_path: Path) -> None:
    """When the store cannot be written and there is a budget, read-only calls are refused too."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=5") as work:
        (work.root / "file").write_text("in the way")
        client = work.client("--store", "file/adjourn.db")
        assert client.tools()
        assert refused(client.call("file.read"))
        assert work.executed() == []


def test_a_workspace_that_can_only_be_read_refuses_effects(tmp_path: Path) -> None:
    """On a read-only file system calls with effects are refused, until it is writable again."""
    with _tmpfs(tmp_path / "work", "size=4m"), ProxyWorkspace(tmp_path, "allow *") as work:
        subprocess.run(["mount", "-o", "remount,ro", str(work.root)], check=True)
        client = work.client()
        assert refused(client.call("echo"))
        client.tools()
        assert not refused(client.call("file.read"))
        subprocess.run(["mount", "-o", "remount,rw", str(work.root)], check=True)
        assert not refused(client.call("echo"))
        assert client.close() == 0
        assert work.executed() == ["file.read", "echo"]


def test_a_full_disk_refuses_effects_writes_nothing_by_half_and_recovers(tmp_path: Path) -> None:
    """On a full disk calls with effects are refused, the history stays valid, and calls pass once there is space."""
    with _tmpfs(tmp_path / "work", "size=2m"), ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        client.tools()
        assert not refused(client.call("echo"))
        fill = work.root / "fill"
        with fill.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
        answers = [client.call("echo", {"text": "y" * 400, "n": n}) for n in range(600)]
        passed = [refused(answer) for answer in answers].index(True)
        assert all(refused(answer) for answer in answers[passed:])
        assert "disk is full" in text_of(answers[-1])
        assert not refused(client.call("file.read"))
        assert refused(client.call("aex.checkpoint", {"name": "a"}))
        assert work.executed() == ["echo"] * (passed + 1) + ["file.read"]
        store = open_store(work.store_url)
        (task,) = store.streams()
        assert verify_chain(store.read(task)).valid
        store.close()
        fill.unlink()
        assert not refused(client.call("echo"))
        assert client.meta("aex.checkpoint", name="a")["path"]
        assert client.close() == 0
        assert work.ledger().calls_used >= len(work.executed()) - 1
        assert not work.ledger().doubts


def test_a_store_that_is_not_one_is_left_as_it_is(tmp_path: Path) -> None:
    """A store file that is no database is not changed, and calls are refused."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        (work.root / ".aex/adjourn.db").write_bytes(b"these are somebody's notes\n" * 100)
        client = work.client()
        assert refused(client.call("echo"))
        assert client.close() == 0
        assert (work.root / ".aex/adjourn.db").read_bytes() == b"these are somebody's notes\n" * 100


def test_a_store_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """A store path that is a symbolic link is refused, and its target is not created."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        (work.root / ".aex/adjourn.db").symlink_to(tmp_path / "elsewhere.db")
        client = work.client()
        assert refused(client.call("echo"))
        assert not (tmp_path / "elsewhere.db").exists()


def test_a_history_that_was_changed_in_the_store_stops_the_calls(tmp_path: Path) -> None:
    """When the stored history fails verification, calls are refused."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client("--task", "t")
        for _ in range(3):
            client.call("echo")
        client.kill()
        import sqlite3  # only here

        connection = sqlite3.connect(work.store_url)
        table, column = "event", "data"
        changed = connection.execute(
            f"UPDATE {table} SET {column} = CAST(replace(CAST({column} AS TEXT), '\"echo\"', '\"ecko\"') AS BLOB)"
            " WHERE position & 1099511627775 = 2"
        ).rowcount
        connection.commit()
        connection.close()
        assert changed == 1
        client = work.client("--task", "t")
        answer = client.call("echo")
        assert refused(answer)
        assert "was changed in the store" in text_of(answer)
        assert work.executed() == ["echo"] * 3


# --- what no call may touch

TOUCHES = [
    {"path": ".aex/adjourn.db"},
    {"path": "./.aex//adjourn.db-wal"},
    {"path": ".aex/adjourn.db-shm"},
    {"path": ".aex/policy.aex"},
    {"path": "aex.policy.aex"},
    {"path": "src/../.aex/policy.aex"},
    {"path": ".AEX/Policy.AEX"},
    {"path": ".aex/checkpoints"},
    {"path": ".aex/checkpoints/"},
    {"path": ".aex/checkpoints/a/checkpoint.json"},
    {"path": ".aex"},
    {"path": "ROOT/.aex/policy.aex"},
    {"path": "file://ROOT/.aex/policy.aex"},
    {"path": "link/policy.aex"},
    {"path": "policy-link"},
    {"files": [{"name": "a"}, {"deep": {"er": [".aex/adjourn.db"]}}]},
    {"files": {".aex/policy.aex": "allow *"}},
    {"command": "rm -rf .aex/checkpoints/a"},
    {"cmd": ["sh", "-c", "echo allow '*' >> .aex/policy.aex"]},
    {"patch": "--- a/.aex/policy.aex\n+++ b/.aex/policy.aex\n"},
    {"pad": ["x"] * 3000, "path": ".aex/policy.aex"},
    {"path": ".aex/policy.aex", "pad": ["x"] * 3000},
]


def test_no_call_with_an_effect_touches_what_is_protected(tmp_path: Path) -> None:
    """A call with effects whose arguments lead to a protected place is refused, whatever the tool's name."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        (work.root / "link").symlink_to(work.root / ".aex")
        (work.root / "policy-link").symlink_to(work.root / ".aex/policy.aex")
        client = work.client()
        client.tools()
        deep: object = ".aex/adjourn.db"
        for _ in range(60):
            deep = {"a": [deep]}
        for arguments in [*TOUCHES, deep]:
            filled = _fill(arguments, str(work.root))
            answer = client.call("file.write", filled)
            assert refused(answer), arguments
            assert "protected" in text_of(answer)
            answer = client.call("echo", filled)  # whatever the tool is called
            assert refused(answer), arguments
        assert work.executed() == []
        assert {fact.reason for fact in work.facts("tool.denied")} == {"protected"}
        assert work.ledger().calls_used == 0


def _fill(value: object, root: str) -> dict[str, object]:
    def inner(value: object) -> object:
        if isinstance(value, str):
            return value.replace("ROOT", root)
        if isinstance(value, list):
            return [inner(item) for item in value]
        if isinstance(value, dict):
            return {key: inner(item) for key, item in value.items()}
        return value

    filled = inner(value)
    assert isinstance(filled, dict)
    return filled


def test_what_only_looks_like_it_passes_and_reading_is_allowed(tmp_path: Path) -> None:
    """A call that only mentions a protected place, or reads it, passes."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        client.tools()
        harmless: list[Message] = [
            {"path": "tasks/a.aex"},
            {"path": ".aex/runs/a.aex"},
            {"path": "policy.aex"},
            {"path": "sub/.aex/runs/a.aex"},
            {"text": "see .aex/policy.aex"},
            {"text": "line\n.aex/policy.aex\n"},
            {"path": "../elsewhere/.aex/policy.aex"},
            {"n": 5, "x": None, "y": True},
        ]
        for arguments in harmless:
            assert not refused(client.call("file.write", arguments)), arguments
        assert not refused(client.call("file.read", {"path": ".aex/policy.aex"}))
        assert len(work.executed()) == len(harmless) + 1


def test_a_store_elsewhere_in_the_workspace_is_protected_too(tmp_path: Path) -> None:
    """A store that --store names is protected with its companion files."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client("--store", "state/history.db")
        client.call("echo")
        assert refused(client.call("file.write", {"path": "state/history.db"}))
        assert refused(client.call("file.write", {"path": "state/history.db-wal"}))
        assert os.listdir(work.root / "state")


def test_a_hint_alone_opens_no_protected_place(tmp_path: Path) -> None:
    """A server that marks any tool as read-only gets no path to write to; a tool that also says so by its name may read."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(server=("--tools", "reading"))
        client.tools()
        assert "protected" in text_of(client.call("slow", {"path": ".aex/policy.aex"}))
        assert "protected" in text_of(client.call("file.read", {"path": "a", "output": ".aex/policy.aex"}))
        assert not refused(client.call("file.read", {"path": ".aex/policy.aex"}))
        assert work.executed() == ["file.read"]


def test_nothing_that_names_the_keys_reaches_the_server(tmp_path: Path) -> None:
    """Neither a call that reads nor the reading of a resource, by a path, a URL, a link, or in a command."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        client.call("echo")  # makes the keys
        (work.root / "k").symlink_to(work.config)
        secret = work.config / "keys" / "secret"
        assert secret.exists()
        forwarded = len(work.forwarded())
        for path in (str(secret), "../config/keys/secret", f"file://{secret}", "k/keys/secret", "k", str(work.config)):
            assert "the folder of your keys" in text_of(client.call("file.read", {"path": path})), path
            answer = client.ask("resources/read", {"uri": path})
            assert "the folder of your keys" in answer["error"]["message"], path
        for arguments in (
            {"root": str(work.config), "path": "keys/secret"},
            {"path": f"{work.config}/k?ys/*"},
            {"options": {"dir": ".."}, "files": "a.py,config/keys/secret"},
            {"input": json.dumps({"uri": f"vscode://file{secret}"})},
        ):
            assert "the folder of your keys" in text_of(client.call("file.read", arguments)), arguments
        for method, params in (
            ("resources/subscribe", {"uri": f"git://x?file={secret}"}),
            ("completion/complete", {"ref": {"uri": "file:///{path}"}, "argument": {"value": f"{secret}"[1:]}}),
            ("prompts/get", {"name": "explain", "arguments": {"file": str(secret)}}),
        ):
            assert "the folder of your keys" in client.ask(method, params)["error"]["message"], method
        denied = {(fact.reason, fact.tool) for fact in work.facts("tool.denied")}
        assert {reason for reason, _ in denied} == {"protected"}
        assert ("protected", "file.read") in denied
        assert ("protected", "mcp.resources.read") in denied
        for command in ("cat k/keys/secret", f"cat {work.config}/keys/*", "cd ../config/keys && cat secret"):
            assert "protected" in text_of(client.call("echo", {"command": command})), command
        assert len(work.forwarded()) == forwarded
        assert "error" not in client.ask("resources/read", {"uri": "file:///etc/hostname"})


def test_what_is_around_the_workspace_s_rules_stays(tmp_path: Path) -> None:
    """No command, patch or SQL touches them however it says so, and no tool that removes takes a folder around them."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        for arguments in (
            {"command": "rm -rf .aex"},
            {"command": "cd .aex && rm *"},
            {"command": "find . -delete"},
            {"command": "git clean -fdx"},
            {"command": ["rm", "-rf", "."]},
            {"input": "*** Begin Patch\n*** Delete File: .aex//policy.aex\n*** End Patch"},
            {"edits": [{"diff": "--- a/.aex//policy.aex\n+++ /dev/null\n"}]},
            {"sql": "ATTACH '.aex/adjourn.db' AS h"},
            {"path": "../.aex/policy.aex", "cwd": "src"},
        ):
            assert "protected" in text_of(client.call("echo", arguments)), arguments
        assert "protected" in text_of(client.call("fs.delete_directory", {"path": "."}))
        assert work.executed() == []
        for passing in (
            {"command": "git commit -m 'fix .aex docs'"},
            {"command": "cat .aex/policy.aex"},
            {"command": "rm -rf build"},
            {"path": "."},
            {"diff": "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-a\n+see .aex/policy.aex\n"},
            {"query": "SELECT '.aex/policy.aex'"},
        ):
            assert not refused(client.call("echo", passing)), passing
