"""`adjourn doctor`: what waits, what is stale, and what is unsafe about a workspace."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.command_line import CommandLine
from support.proxy import Done


def codes(done: Done) -> set[str]:
    return {found["code"] for found in done.json["findings"]}


def test_doctor_names_what_waits_and_what_is_stale(left: CommandLine) -> None:
    """`adjourn doctor` reports dead sessions, calls in doubt and open questions, none of which is an error."""
    done = left.ok("doctor", "--json")
    assert {"stale-session", "in-doubt", "waiting"} <= codes(done)
    assert done.json["healthy"]
    assert left.ok("doctor").out.startswith("0 errors, ")


def test_doctor_finds_open_keys_a_broken_policy_and_a_tracked_store(context: CommandLine) -> None:
    """`adjourn doctor` reports readable keys, an invalid policy and a store in git as errors, with the remedy."""
    (context.config / "keys" / "default.key").chmod(0o644)
    (context.root / ".aex" / "policy.aex").write_text("nonsense")
    for command in (["init", "-q"], ["add", "-f", ".aex/adjourn.db"]):
        subprocess.run(["git", *command], cwd=context.root, check=True, capture_output=True)
    done = context.run("doctor", "--json")
    assert done.code == 1
    assert {"keys-open", "store-tracked", "AEX100"} <= codes(done)
    assert not done.json["healthy"]
    assert f"chmod 600 {context.config}/keys/default.key" in context.run("doctor").out


def test_doctor_finds_keys_in_the_workspace_and_a_damaged_store(context: CommandLine) -> None:
    """`adjourn doctor` reports keys inside the workspace and a store that is no database."""
    inside = CommandLine(context.root, context.root / "config")
    assert inside.run("doctor").code == 1
    assert "keys-in-workspace" in codes(inside.run("doctor", "--json"))
    context.database.write_bytes(b"this is no database, but it is long enough to be looked at" * 20)
    assert "store" in codes(context.run("doctor", "--json"))


def test_doctor_says_once_that_git_does_not_ignore_the_store(context: CommandLine) -> None:
    """One line of .gitignore is the remedy for the store and for the log beside it."""
    subprocess.run(["git", "init", "-q"], cwd=context.root, check=True)
    context.database.with_name("adjourn.db-wal").write_bytes(b"")
    told = [finding["code"] for finding in context.ok("doctor", "--json").json["findings"]]
    assert told.count("store-not-ignored") == 1


def test_doctor_in_an_empty_folder_makes_nothing(tmp_path: Path) -> None:
    """`adjourn doctor` in an empty folder reports what is missing and creates nothing."""
    context = CommandLine(tmp_path / "empty", tmp_path / "config")
    context.root.mkdir()
    assert codes(context.ok("doctor", "--json")) == {"no-store", "no-policy"}
    assert list(context.root.iterdir()) == []
    assert not context.config.exists()
