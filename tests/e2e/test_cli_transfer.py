"""Checkpoints that go to another person and back: export, import, and the keys that decide whose word counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command_line import CommandLine
from support.proxy import ProxyWorkspace


@pytest.fixture
def colleague(tmp_path: Path) -> Iterator[CommandLine]:
    """Another person's workspace and keys."""
    with ProxyWorkspace(
        tmp_path / "colleague", "use echo, file.*, slow, secrets.read, silent", "budget calls=20"
    ) as workspace:
        yield CommandLine(workspace.root, workspace.config)


def resumed(context: CommandLine, name: str) -> dict[str, Any]:
    with ProxyWorkspace(context.root.parent, name=context.root.name) as workspace:
        result: dict[str, Any] = workspace.client(name="other").call("aex.resume", {"name": name})["result"]
    return result


@pytest.mark.parametrize("place", ["workspace", "elsewhere"])
def test_what_a_stranger_signed_is_resumed_only_after_a_person_vouched(
    context: CommandLine, colleague: CommandLine, tmp_path: Path, place: str
) -> None:
    """A checkpoint of an untrusted signer is resumed after `adjourn checkpoint import`, and its description is marked."""
    folder = colleague.root / ".aex" / "checkpoints" / "fix-auth" if place == "workspace" else tmp_path / "sent"
    context.ok("checkpoint", "export", "fix-auth", "--to", str(folder))
    assert resumed(colleague, "fix-auth").get("isError")
    assert colleague.run("resume", "fix-auth").code == (3 if place == "workspace" else 1)
    done = colleague.ok("checkpoint", "import", str(folder))
    assert done.out.startswith("imported fix-auth: ")
    assert "vouched for by you" in done.out
    told = colleague.ok("resume", "fix-auth", "--json").json
    assert told["callsUsed"] == 2
    assert told["untrustedSigner"].startswith("ed25519:")
    shown = " ".join(colleague.ok("resume", "fix-auth").out.split())
    assert f"description (by an untrusted signer, {told['untrustedSigner']}) " in shown
    assert "description (by an untrusted signer, ed25519:" in " ".join(
        colleague.ok("checkpoint", "show", "fix-auth").out.split()
    )
    assert "(by an untrusted signer)" in colleague.ok("checkpoint", "list").out
    heard = resumed(colleague, "fix-auth")
    assert not heard.get("isError"), heard
    assert "untrustedSigner" in heard["content"][0]["text"]
    assert colleague.ok("verify", "--json").json["valid"]


def test_what_a_trusted_key_signed_is_resumed_without_more(context: CommandLine, colleague: CommandLine) -> None:
    """A checkpoint of a trusted signer is resumed without an import, until the key is distrusted."""
    key = context.ok("keys", "show").out.strip()
    assert colleague.ok("keys", "trust", "ann", key).out.startswith("trusted as ann: ed25519:")
    context.ok("checkpoint", "export", "fix-auth", "--to", str(colleague.root / ".aex" / "checkpoints" / "fix-auth"))
    assert not resumed(colleague, "fix-auth").get("isError")
    assert colleague.ok("checkpoint", "list", "--json").json["checkpoints"][0]["signer"] == "ann"
    assert (
        "untrusted" not in colleague.ok("resume", "fix-auth").out + colleague.ok("checkpoint", "show", "fix-auth").out
    )
    exported = colleague.ok("checkpoint", "export", "fix-auth", "--json").json
    assert colleague.ok("verify", exported["path"]).code == 0
    colleague.ok("keys", "distrust", "ann")
    assert colleague.run("resume", "fix-auth").code == 3


def test_a_changed_folder_is_not_imported(context: CommandLine, colleague: CommandLine, tmp_path: Path) -> None:
    """`adjourn checkpoint import` refuses a folder whose checkpoint.json was edited, and imports nothing."""
    context.ok("checkpoint", "export", "fix-auth", "--to", str(tmp_path / "sent"))
    path = tmp_path / "sent" / "checkpoint.json"
    path.write_bytes(path.read_bytes().replace(b'"callsUsed": 2', b'"callsUsed": 0'))
    done = colleague.run("checkpoint", "import", str(tmp_path / "sent"))
    assert done.code == 1
    assert "callsUsed" in done.err
    assert not (colleague.root / ".aex" / "adjourn.db").exists()


@pytest.mark.parametrize("place", ["workspace", "elsewhere"])
def test_a_checkpoint_in_the_published_format_is_taken_at_a_persons_word(
    colleague: CommandLine, tmp_path: Path, place: str
) -> None:
    """A checkpoint without signature is resumed only after `adjourn checkpoint import`, which records that a person vouched for it."""
    folder = colleague.root / ".aex" / "checkpoints" / "old" if place == "workspace" else tmp_path / "old"
    folder.mkdir(parents=True)
    published = {
        "name": "old", "description": "from before", "timestamp": "2026-01-02T03:04:05.678Z", "callsUsed": 7, "budget": 9,
        "toolHistory": [{"tool": "echo", "timestamp": "2026-01-02T03:04:05.678Z", "decision": "forward"}],
    }  # fmt: skip
    (folder / "checkpoint.json").write_text(json.dumps(published))
    assert colleague.run("resume", "old").code == 1
    preview = colleague.ok("checkpoint", "import", str(folder), "--dry-run", "--json").json
    assert (preview["task"], preview["dryRun"]) == ("", True)
    assert colleague.ok("checkpoint", "import", str(folder), "--dry-run").out.startswith("would import old from aex")
    assert not (colleague.root / ".aex" / "adjourn.db").exists()
    done = colleague.ok("checkpoint", "import", str(folder), "--json").json
    assert (done["kind"], done["vouched"], done["signer"]) == ("published", True, "default")
    assert done["kept"] == preview["kept"] == [
        "7 spent calls", "1 entry of toolHistory", "the budget of 9 calls"
    ]  # fmt: skip
    assert done["leftOut"] == ["audit.jsonl: the folder has none"]
    assert "imported     1 entry from aex, not verified" in colleague.ok("checkpoint", "show", "old").out
    assert colleague.ok("resume", "old", "--json").json["callsUsed"] == 7
    assert "imported     1 entry from aex, not verified" in colleague.ok("resume", "old").out
    assert "entry.imported     echo tool.allowed forward" in colleague.ok("log", "-v", "--full").out
    assert "warning imported" in colleague.ok("verify").out
    heard = resumed(colleague, "old")
    assert not heard.get("isError"), heard
    assert colleague.ok("verify").code == 0


def test_histories_that_parted_are_not_mixed(context: CommandLine, colleague: CommandLine, tmp_path: Path) -> None:
    """`adjourn checkpoint import` refuses a history that differs from the one of the same task here."""
    context.ok("checkpoint", "export", "fix-auth", "--to", str(tmp_path / "sent"))
    colleague.ok("checkpoint", "import", str(tmp_path / "sent"))
    assert not resumed(colleague, "fix-auth").get("isError")
    resumed(context, "fix-auth")
    with ProxyWorkspace(context.root.parent, name=context.root.name) as workspace:
        client = workspace.client(name="other")
        client.meta("aex.resume", name="fix-auth")
        client.meta("aex.checkpoint", name="later")
    context.ok("checkpoint", "export", "later", "--to", str(tmp_path / "later"))
    before = colleague.rows()
    done = colleague.run("checkpoint", "import", str(tmp_path / "later"))
    assert done.code == 1
    assert "has diverged" in done.err
    assert colleague.rows() == before


def test_export_leaves_other_files_alone(context: CommandLine, tmp_path: Path) -> None:
    """`adjourn checkpoint export --to` refuses a folder with other files in it and writes nothing."""
    target = tmp_path / "full"
    target.mkdir()
    (target / "mine.txt").write_text("x")
    done = context.run("checkpoint", "export", "fix-auth", "--to", str(target))
    assert done.code == 3
    assert [path.name for path in target.iterdir()] == ["mine.txt"]


# --- keys


def test_another_key_never_takes_a_trusted_name(left: CommandLine, tmp_path: Path) -> None:
    """`adjourn keys trust` refuses a second key for a name, and accepts the same key again."""
    me = CommandLine(left.root, tmp_path / "keys")
    other = CommandLine(left.root, tmp_path / "others").ok("keys", "show").out.strip()
    third = CommandLine(left.root, tmp_path / "third").ok("keys", "show").out.strip()
    (tmp_path / "ann.pub").write_text(other + "\n")
    me.ok("keys", "trust", "ann", str(tmp_path / "ann.pub"))
    me.ok("keys", "trust", "ann", other)
    assert me.run("keys", "trust", "ann", third).code == 1
    assert me.run("keys", "trust", "default", third).code == 1
    assert me.run("keys", "trust", "bob", "nonsense").code == 1
    assert [key["name"] for key in me.ok("keys", "--json").json["keys"]] == ["ann"]
    me.ok("keys", "show")
    assert [key["name"] for key in me.ok("keys", "--json").json["keys"]] == ["default", "ann"]
    assert me.run("keys", "distrust", "bob").code == 1


def test_work_of_another_tool_is_imported(colleague: CommandLine, tmp_path: Path) -> None:
    """A hand-over page becomes a task with a page, under the name given; a preview writes nothing; any client resumes it."""
    page = tmp_path / "handoff.md"
    page.write_text("# Handoff\n\n## Goal\nFix the login.\n\n## Next steps\n- Write the test\n")
    preview = colleague.ok("checkpoint", "import", str(page), "--dry-run")
    assert preview.out.startswith("would import handoff from handoff: vouched for by you, not verified")
    assert not (colleague.root / ".aex" / "adjourn.db").exists()
    done = colleague.ok("checkpoint", "import", "--from", "handoff", str(page), "--name", "login", "--json").json
    assert (done["kind"], done["from"], done["page"]) == ("handoff", "handoff", "tmp/checkpoint-active.md")
    assert not resumed(colleague, "login").get("isError")
    assert "Write the test" in colleague.ok("resume", "login").out
    assert colleague.run("checkpoint", "import", str(page), "--from", "continuum").code == 1
    assert colleague.run("checkpoint", "import", str(page), "--thread", "x").code == 2
