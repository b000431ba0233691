"""A policy that only observes, and one that is edited while sessions work under it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from adjourn.log.canonical_json import digest
from support.in_process import ERAS, META_TOOLS, MODERN, ProxyWorkspace, adjourn, refused, text_of, wait_for
from support.requirements import requirement

OBSERVE = (
    "mode observe",
    "allow echo",
    "allow file.write:src/**",
    "allow payments.charge, silent",
    "deny secrets.*",
    "deny mcp.resources.*",
    "deny mcp.notifications.roots.*",
    "confirm before echo",
    "once payments.charge by invoice",
    "limit file.* 1 per minute",
    "budget calls=5",
)


def workspace(path: Path, *policy: str) -> ProxyWorkspace:
    return ProxyWorkspace(path, *policy, version="v1")


# --- observe


@requirement("V1 observe")
@pytest.mark.parametrize("era", ERAS)
def test_nothing_is_blocked_and_everything_is_told(tmp_path: Path, era: str) -> None:
    """In observe mode no call is refused, and each one that would be is recorded."""
    with workspace(tmp_path, *OBSERVE) as work:
        client = work.client("--confirm-timeout", "0", era=era)
        assert set(client.tools()) >= {"secrets.read", "network.fetch", "echo"}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("echo", {}), ("secrets.read", {}), ("network.fetch", {}), ("file.write", {"path": "src/a"}),
            ("file.write", {"path": "src/b"}), ("payments.charge", {"invoice": 1}), ("payments.charge", {"invoice": 1}),
            ("payments.charge", {}), ("file.write", {"path": "b"}),
        ]  # fmt: skip
        for tool, arguments in calls:
            assert not refused(client.call(tool, arguments)), tool
        assert client.ask("resources/read", {"uri": "file:///a"})["result"]["method"] == "resources/read"
        client.post({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        client.ask("resources/list")
        assert work.executed() == [tool for tool, _ in calls]
        assert any(b"roots/list_changed" in line for line in work.forwarded())
        assert work.ledger().calls_used == len(calls)
        paid = next(fact.call for fact in work.facts("tool.allowed") if fact.tool == "payments.charge")
        told = [(fact.tool, fact.decision, fact.reason.split(" (")[0]) for fact in work.facts("policy.observed")]
        assert told == [
            ("echo", "ask", "confirm echo"),
            ("secrets.read", "block", "deny_list"),
            ("network.fetch", "block", "not_allowed"),
            ("file.write", "block", "rate_limit"),
            ("payments.charge", "block", "budget_exhausted"),
            ("payments.charge", "replay", f"call {paid} had this effect"),
            ("payments.charge", "block", "once_unnamed"),
            ("file.write", "block", "not_allowed"),
            ("mcp.resources.read", "block", "deny_list"),
            ("mcp.notifications.roots.list_changed", "block", "deny_list"),
            ("mcp.resources.list", "block", "deny_list"),
        ]  # fmt: skip


@requirement("V1 observe")
def test_a_call_in_doubt_and_a_protected_place_are_no_matter_of_mode(tmp_path: Path) -> None:
    """In observe mode calls in doubt and protected places are still refused."""
    with workspace(tmp_path, *OBSERVE) as work:
        client = work.client("--task", "t")
        client.begin("silent", {"n": 1})
        wait_for(lambda: work.executed() == ["silent"])
        client.kill()
        client = work.client("--task", "t", "--confirm-timeout", "0", foreign=True)
        assert "in doubt" in text_of(client.call("silent", {"n": 1}))
        for path in (".aex/policy.aex", ".aex/adjourn.db", ".aex/checkpoints/a"):
            assert "protected" in text_of(client.call("file.write", {"path": path}))
        assert work.executed() == ["silent"]


# --- reload


@requirement("V1 reload")
@pytest.mark.parametrize("era", ERAS)
def test_an_edit_counts_from_the_next_call(tmp_path: Path, era: str) -> None:
    """An edited policy decides on the next call, on the list of tools and on the budget, and is recorded."""
    with workspace(tmp_path, "allow echo", "budget calls=9") as work:
        client = work.client(era=era)
        assert client.tools()[: -len(META_TOOLS)] == ["echo"]
        assert not refused(client.call("echo"))
        work.write_policy("allow file.read", "budget calls=50")
        assert refused(client.call("echo"))
        assert not refused(client.call("file.read"))
        assert client.tools()[: -len(META_TOOLS)] == ["file.read"]
        (fact,) = work.facts("policy.changed")
        assert (fact.policy, fact.budget) == (digest(work.policy_file.read_bytes()), 50)
        assert "was edited; the new version is in force" in client.stderr()
        assert work.ledger().budget == 50
        changed = [line for line in client.received if b"notifications/tools/list_changed" in line]
        assert len(changed) == (0 if era == MODERN else 1)
        assert "policy.changed" in adjourn(work, "log", "-v").out


@requirement("V1 reload")
def test_every_proxy_of_the_client_goes_by_the_edit(tmp_path: Path) -> None:
    """Each proxy of a client applies the edited policy and records it in its session."""
    with workspace(tmp_path, "allow echo") as work:
        clients = [work.client(), work.client()]
        for client in clients:
            client.call("echo")
        work.write_policy("allow file.read")
        for client in clients:
            assert refused(client.call("echo"))
        assert len(work.facts("policy.changed")) == 2  # each session says what it works under


@requirement("V1 reload")
@pytest.mark.parametrize("how", ["nonsense", "truncated", "deleted", "a folder", "not UTF-8"])
def test_a_broken_edit_keeps_the_policy_and_says_so(tmp_path: Path, how: str) -> None:
    """An edit that cannot be read leaves the earlier policy in force and is reported."""
    with workspace(tmp_path, "allow echo", "deny file.*") as work:
        client = work.client()
        client.call("echo")
        good = work.policy_file.read_bytes()
        work.policy_file.unlink()
        if how == "a folder":
            work.policy_file.mkdir()
        elif how != "deleted":
            broken = {"nonsense": good + b"allowed file.*\n", "truncated": b"", "not UTF-8": good + b"\xff"}
            work.policy_file.write_bytes(broken[how])
        work.wait_until_it_counts()
        assert not refused(client.call("echo"))
        assert refused(client.call("file.read"))
        (fact,) = work.facts("policy.broken")
        assert fact.message.startswith(".aex/policy.aex:")
        assert "the previous version stays in force: .aex/policy.aex:" in client.stderr()
        assert "policy.broken" in adjourn(work, "log", "-v").out
        if how == "a folder":
            work.policy_file.rmdir()
        work.policy_file.write_bytes(good + b"allow file.*\n")
        work.wait_until_it_counts()
        assert not refused(client.call("echo"))
        work.write_policy("allow *")
        assert not refused(client.call("file.read"))


@requirement("V1 reload")
def test_an_edited_contract_changes_nothing(tmp_path: Path) -> None:
    """An edited contract does not change what a running session may call."""
    with workspace(tmp_path, "allow *") as work:
        contract = work.root / "fix.aex"
        contract.write_text('task fix v0\ngoal "fix it"\nuse echo\nreturn x\n')
        client = work.client("--contract", "fix.aex")
        assert not refused(client.call("echo"))
        contract.write_text('task fix v0\ngoal "fix it"\nuse *\nreturn x\n')
        assert refused(client.call("file.read"))
        work.write_policy("allow *", "budget calls=9")
        assert refused(client.call("file.read"))
        assert not refused(client.call("echo"))
        assert work.ledger().budget == 9


@requirement("V1 reload")
def test_the_policy_cannot_be_edited_by_the_agent_wherever_it_is(tmp_path: Path) -> None:
    """A policy that --policy names is a protected place."""
    with workspace(tmp_path, "allow *") as work:
        (work.root / "conf").mkdir()
        os.replace(work.policy_file, work.root / "conf" / "p.aex")
        client = work.client("--policy", "conf/p.aex")
        for arguments in (
            {"path": "conf/p.aex"},
            {"path": f"{work.root}/conf/../conf/p.aex"},
            {"files": {"conf/p.aex": "policy x v0"}},
            {"cmd": "echo allow '*' >> conf/p.aex"},
        ):
            assert "conf/p.aex: it is protected" in text_of(client.call("file.write", arguments)), arguments
        assert work.executed() == []


@requirement("V1 reload")
def test_an_edit_of_the_same_length_in_the_same_moment_is_seen(tmp_path: Path) -> None:
    """Also when it replaces the file in one step and keeps its time stamp."""
    with workspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        status = work.policy_file.stat()
        new = work.policy_file.with_name("new")
        new.write_text(work.policy_file.read_text().replace("echo", "fail"))
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.replace(new, work.policy_file)
        work.wait_until_it_counts()
        assert refused(client.call("echo"))


def test_an_unchanged_policy_costs_no_event_however_often_it_is_written(tmp_path: Path) -> None:
    """Writing the same policy again appends no event."""
    with workspace(tmp_path, "allow echo") as work:
        client = work.client()
        for _ in range(3):
            work.write_policy("allow echo")
            assert not refused(client.call("echo"))
        assert work.facts("policy.changed") == []
