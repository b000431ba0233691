"""`adjourn verify` as a person runs it: each way to change a store, a name or a folder is found where it was made."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from adjourn.log.event import GENESIS
from support.command_line import CommandLine, is_clean


def tampered(context: CommandLine, *, deep: bool = True) -> tuple[str, int | None]:
    done = context.run("verify", "--json", *(() if deep else ("--quick",)))
    assert done.code == 1, done
    text = context.run("verify")
    assert text.code == 1
    assert text.out.startswith("BROKEN: ")
    errors = [found for found in done.json["findings"] if found["severity"] == "error"]
    return errors[0]["code"], errors[0]["seq"]


@pytest.mark.parametrize("deep", [True, False])
def test_edited_bytes_are_found_where_they_are(context: CommandLine, *, deep: bool) -> None:
    """`adjourn verify` names the event whose bytes were edited, with and without --quick."""
    data = context.rows()[4][2].replace(b"file.read", b"file.rEad")
    context.sql("UPDATE event SET data = ? WHERE position & 1099511627775 = 4", data)
    assert tampered(context, deep=deep) == ("hash-mismatch", 4)
    assert context.run("tasks").code in (0, 1)


def test_bytes_that_became_text_are_found(context: CommandLine) -> None:
    """An event that was edited and stored as text is a hash mismatch."""
    context.sql(
        "UPDATE event SET data = replace(CAST(data AS TEXT), 'file.read', 'file.wait') WHERE position & 1099511627775 = 4"
    )
    assert tampered(context) == ("hash-mismatch", 4)


def test_an_edit_with_its_hash_is_found_at_the_next_event(context: CommandLine) -> None:
    """An edited event with a matching hash is a parent mismatch of the event after it."""
    data = context.rows()[4][2].replace(b"file.read", b"file.rEad")
    context.sql(
        "UPDATE event SET data = ?, hash = ? WHERE position & 1099511627775 = 4", data, hashlib.sha256(data).hexdigest()
    )
    assert tampered(context) == ("parent-mismatch", 5)


def test_a_removed_event_is_found_where_it_was(context: CommandLine) -> None:
    """A deleted event is reported as missing at its position."""
    context.sql("DELETE FROM event WHERE position & 1099511627775 = 3")
    assert tampered(context) == ("missing-event", 3)


def test_a_missing_end_is_found_by_the_checkpoints_name(context: CommandLine) -> None:
    """A history that was cut before a checkpoint contradicts the checkpoint's name."""
    made = context.seq_of("checkpoint.created")
    context.sql("DELETE FROM event WHERE position & 1099511627775 >= ?", made)
    assert tampered(context) == ("ref-mismatch", made)


def test_a_missing_end_is_found_with_a_head_kept_elsewhere(context: CommandLine, task: str) -> None:
    """A history without its last event is valid, except against the head that --expect-head names."""
    head = context.ok("status", "--json").json["head"]
    assert context.ok("verify", task, "--expect-head", head).code == 0
    context.sql("DELETE FROM event WHERE position & 1099511627775 = ?", len(context.rows()) - 1)
    assert context.ok("verify", task).code == 0
    done = context.run("verify", task, "--expect-head", head, "--json")
    assert done.code == 1
    assert done.json["findings"][0]["code"] == "head-mismatch"
    assert context.run("verify", "--expect-head", head).code == 2


def test_a_head_that_was_built_upon_is_told_from_a_lost_one(left: CommandLine, task: str) -> None:
    """An expected head that is an earlier event of the history is reported with its position."""
    done = left.run("verify", task, "--expect-head", left.rows()[5][1])
    assert done.code == 1
    assert "event 5" in done.out


def test_a_history_written_anew_fails_at_the_signature(context: CommandLine) -> None:
    """A rewritten history with correct hashes fails at the signature of its checkpoint."""
    after = GENESIS
    for seq, _, data in context.rows():
        new = data.replace(b'"calls":20', b'"calls":99').replace(b"file.read", b"file.rEad")
        new = b'{"after":"' + after.encode() + new[10 + 64 :]
        after = hashlib.sha256(new).hexdigest()
        context.sql("UPDATE event SET data = ?, hash = ? WHERE position & 1099511627775 = ?", new, after, seq)
    made = context.seq_of("checkpoint.created")
    found = {one["code"] for one in context.run("verify", "--json").json["findings"] if one["seq"] == made}
    assert {"root-mismatch", "signature-mismatch"} <= found
    assert tampered(context)[1] == made


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DELETE FROM blob WHERE CAST(data AS TEXT) LIKE '%adjourn/checkpoint/1%'", "document-missing"),
        ("UPDATE blob SET data = X'7B7D' WHERE CAST(data AS TEXT) LIKE '%adjourn/checkpoint/1%'", "document-changed"),
        ("UPDATE ref SET name = 'checkpoint/other' WHERE name LIKE 'checkpoint/%'", "ref-mismatch"),
        ("INSERT INTO ref VALUES ('checkpoint/lost', 'gone 4 abc')", "ref-mismatch"),
        ("INSERT INTO ref VALUES ('checkpoint/junk', '\x1b[2J')", "ref-mismatch"),
    ],
)
def test_changed_documents_and_names_are_found(context: CommandLine, statement: str, code: str) -> None:
    """A document or a name of a checkpoint that was changed in the store is an error."""
    context.sql(statement)
    assert tampered(context)[0] == code
    assert is_clean(context.run("verify").out)


def test_a_wrong_cache_and_a_stranger_are_warnings(context: CommandLine, tmp_path: Path) -> None:
    """A stale fold and an untrusted signer are warnings, and the store is valid."""
    ((name, value),) = context.sql("SELECT name, value FROM ref WHERE name LIKE 'fold/%'")
    context.sql("UPDATE ref SET value = ? WHERE name = ?", value.replace('"callsUsed":2', '"callsUsed":1'), name)
    done = context.ok("verify", "--json").json
    assert done["valid"]
    assert [found["code"] for found in done["findings"]] == ["stale-fold"]
    stranger = CommandLine(context.root, tmp_path / "other")
    codes = [found["code"] for found in stranger.ok("verify", "--json").json["findings"]]
    assert "unknown-signer" in codes


def test_a_folder_is_verified_whole(context: CommandLine) -> None:
    """`adjourn verify FOLDER` finds a change in either file of a checkpoint's folder."""
    folder = context.root / ".aex" / "checkpoints" / "fix-auth"
    assert context.ok("verify", str(folder)).out.startswith("valid: ")
    for name, old, new in (
        ("audit.jsonl", b"echo", b"ecHo"),
        ("checkpoint.json", b'"callsUsed": 2', b'"callsUsed": 1'),
    ):
        path = folder / name
        good = path.read_bytes()
        path.write_bytes(good.replace(old, new))
        done = context.run("verify", str(folder), "--json")
        assert done.code == 1
        assert done.json["findings"][0]["code"] == "folder-broken"
        path.write_bytes(good)
    assert context.run("verify", "./nowhere").code == 1
