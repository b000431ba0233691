"""A checkpoint's folder that was changed: by a byte, by hand, or by what is no plain file. Nothing of it is taken for the checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints.attachments import MAX_AUDIT_BYTES
from adjourn.checkpoints.checkpoint import find
from adjourn.checkpoints.folder import MAX_JSON_BYTES, is_as_written, path_of, write
from adjourn.checkpoints.folder_verification import verify
from adjourn.errors import AdjournError, IntegrityError, InvalidError, NotFoundError, RefusedError
from adjourn.log.signing import encode_bytes, fingerprint, public_key
from support.forging import EDITS, FILES, Edit, Forger, put
from support.workspace import Workspace


def as_json(workspace: Workspace) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((workspace.folder() / FILES[0]).read_bytes())
    return value


# --- what was changed by a byte


def holds_as_it_was(place: Path, before: dict[str, Any]) -> bool:
    """Whether a folder is refused, or says in other spelling what it said before."""
    try:
        verify(str(place))
    except AdjournError:
        return True
    return bool(json.loads((place / FILES[0]).read_bytes()) == before)


@given(st.sampled_from(FILES), st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.integers(0, 2))
def test_a_changed_byte_is_found(saved_workspace: Workspace, name: str, where: float, byte: int, how: int) -> None:
    """Any byte replaced, inserted or removed: refused, or the same JSON; and in the audit log always refused."""
    place, before = saved_workspace.folder(), as_json(saved_workspace)
    path = place / name
    stored = path.read_bytes()
    at = int(where * len(stored))
    changed = stored[:at] + [bytes([byte]), bytes([byte]) + stored[at : at + 1], b""][how] + stored[at + 1 :]
    path.write_bytes(changed)
    try:
        assert holds_as_it_was(place, before)
        if name == FILES[1] and changed != stored:
            with pytest.raises(AdjournError):
                verify(str(place))
    finally:
        path.write_bytes(stored)


@pytest.mark.parametrize("name", FILES)
def test_each_byte_counts(saved_workspace: Workspace, name: str) -> None:
    """A folder with one byte changed is refused or verifies as it was: every byte in a campaign, every 41st otherwise."""
    place, before = saved_workspace.folder(), as_json(saved_workspace)
    path = place / name
    stored = path.read_bytes()
    step = 1 if os.environ.get("ADJOURN_CAMPAIGN") else 41
    for at in range(0, len(stored), step):
        for bit in (0x01, 0x20):
            path.write_bytes(stored[:at] + bytes([stored[at] ^ bit]) + stored[at + 1 :])
            assert holds_as_it_was(place, before), at


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_short_is_refused(saved_workspace: Workspace, name: str) -> None:
    """Wherever it was cut, be it between two lines."""
    path = saved_workspace.folder() / name
    stored = path.read_bytes()
    lines = [at + 1 for at in range(len(stored) - 1) if stored[at] == 10]
    for end in [0, 1, len(stored) // 2, len(stored) - 2, *lines]:
        path.write_bytes(stored[:end])
        with pytest.raises(AdjournError, match=name):
            verify(str(saved_workspace.folder()))


# --- what was changed by hand


@pytest.mark.parametrize(("edit", "reason"), [row[1:] for row in EDITS], ids=[row[0] for row in EDITS])
def test_an_edited_field_is_refused_by_name(saved_workspace: Workspace, edit: Edit, reason: str) -> None:
    """Each field is held to its type and to the chain, and the refusal says which it was."""
    value = as_json(saved_workspace)
    edit(value)
    (saved_workspace.folder() / FILES[0]).write_text(json.dumps(value))
    with pytest.raises(InvalidError, match=reason) as refusal:
        verify(str(saved_workspace.folder()))
    assert refusal.value.remedy or "task id" in reason


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '"x"', "null", "{}", "[" * 100_000, '{"name":"\\ud800"}', '{"a":1}x', "\ufeff{}"]
)
def test_what_is_no_checkpoint_is_refused(saved_workspace: Workspace, text: str) -> None:
    """Other JSON, and what is none, is said to be no checkpoint."""
    (saved_workspace.folder() / FILES[0]).write_text(text)
    with pytest.raises(InvalidError, match=r"checkpoint\.json is not a checkpoint"):
        verify(str(saved_workspace.folder()))


def test_the_rules_are_tested_in_their_order(saved_workspace: Workspace) -> None:
    """Of several faults the one is reported whose rule comes first (spec/events.md, rule 7.7)."""
    path = saved_workspace.folder() / FILES[0]
    faults: list[tuple[Edit, str]] = [
        (put("adjourn", "policy", value="use *"), r"adjourn\.policy differs"),
        (put("adjourn", "contract", value="use *"), r"adjourn\.contract differs"),
        (put("adjourn", "document", "goal", value="another"), r"adjourn\.document differs"),
        (put("adjourn", "historyOmitted", value=1), r"adjourn\.historyOmitted differs"),
        (put("toolHistory", value=[]), "toolHistory differs"),
        (put("budget", value=1), "budget differs"),
        (put("callsUsed", value=1), "callsUsed differs"),
        (put("timestamp", value=""), "timestamp differs"),
        (put("description", value=""), "description differs"),
        (put("name", value="another"), "name differs"),
        (put("adjourn", "publicKey", value=encode_bytes(b"x" * 32)), "was not signed by"),
        (put("adjourn", "task", value="another"), r"adjourn\.task does not match"),
        (put("adjourn", "hash", value="f" * 64), r"adjourn\.hash does not match"),
        (put("adjourn", "task", value=".."), "not a task id"),
        (put("adjourn", "format", value="adjourn/checkpoint/9"), "has format"),
        (put("callsUsed", value=None), r"at `\$\.callsUsed`"),
    ]
    value = as_json(saved_workspace)
    for edit, reason in faults:
        edit(value)
        path.write_text(json.dumps(value))
        with pytest.raises(AdjournError, match=reason):
            verify(str(saved_workspace.folder()))


def test_another_layout_is_the_same_checkpoint(saved_workspace: Workspace) -> None:
    """White space and the order of members say nothing."""
    value = as_json(saved_workspace)
    (saved_workspace.folder() / FILES[0]).write_text(json.dumps(dict(reversed(value.items())), indent=7))
    assert verify(str(saved_workspace.folder())).checkpoint == find(saved_workspace.store, "fix-auth")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda lines: lines[:-1], "has 7 events, expected 8"),
        (lambda lines: [], "has 0 events"),
        (lambda lines: [*lines[:3], *lines[4:]], "fails verification at line 4: .*parent-mismatch"),
        (lambda lines: [*lines[:3], *lines[4:], b"{}"], "fails verification at line 4: .*parent-mismatch"),
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "fails verification at line 3: .*parent-mismatch"),
        (lambda lines: [lines[0], *lines], "fails verification at line 2: .*parent-mismatch"),
        (lambda lines: [*lines, b""], "fails verification at line 9: .*parent-mismatch"),
        (lambda lines: [*lines, b"{}"], "fails verification at line 9: .*parent-mismatch"),
        (lambda lines: [*lines, lines[-1]], "fails verification at line 9: .*parent-mismatch"),
        (
            lambda lines: [line + b"\r" for line in lines],
            r"has CRLF line endings \(line 1\).*put the line `\.aex/checkpoints/\*\* -text` into \.gitattributes",
        ),
    ],
    ids=["truncated", "empty", "dropped", "replaced", "swapped", "twice", "blank", "more", "last twice", "crlf"],
)
def test_an_edited_audit_log_is_refused(
    saved_workspace: Workspace, edit: Callable[[list[bytes]], list[bytes]], reason: str
) -> None:
    """Lines that are missing, moved or added are found, and the refusal says where."""
    path = saved_workspace.folder() / FILES[1]
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"".join(line + b"\n" for line in edit(lines)))
    with pytest.raises(IntegrityError, match=rf"audit\.jsonl.*{reason}"):
        verify(str(saved_workspace.folder()))


def test_the_audit_log_of_another_task_is_refused(saved_workspace: Workspace) -> None:
    """Both files must be of one task, however well each of them holds."""
    context = saved_workspace.context("g2")
    saved_workspace.work(context, *["file.read"] * 3)
    saved_workspace.save(context, "other")
    stored = (saved_workspace.folder("other") / FILES[1]).read_bytes()
    (saved_workspace.folder() / FILES[1]).write_bytes(stored)
    with pytest.raises(IntegrityError, match=r"adjourn\.hash does not match event 7 of audit\.jsonl"):
        verify(str(saved_workspace.folder()))


def test_later_events_of_the_chain_do_not_count(saved_workspace: Workspace) -> None:
    """A crash between both files leaves a longer audit log: the checkpoint is what it was."""
    before = verify(str(saved_workspace.folder()))
    saved_workspace.work(saved_workspace.context(), "file.read")
    more = b"".join(entry.data + b"\n" for entry in saved_workspace.entries(before.extra.task))
    (saved_workspace.folder() / FILES[1]).write_bytes(more)
    after = verify(str(saved_workspace.folder()))
    assert after == before


def test_a_forgery_that_holds_is_not_trusted(saved_workspace: Workspace) -> None:
    """Signed again with another key, all of it holds; but that key is nobody's here."""
    forger = Forger(saved_workspace.folder())
    forger.write(forger.extra.document)
    verified = verify(str(saved_workspace.folder()))
    assert (verified.signer, verified.trusted_as) == (fingerprint(public_key(b"f" * 32)), "")


def test_even_a_signer_cannot_state_what_did_not_happen(saved_workspace: Workspace) -> None:
    """A signed document that refunds calls is refused: it does not follow from the events that were signed with it."""
    forger = Forger(saved_workspace.folder())
    forger.write(forger.extra.document | {"callsUsed": 0})
    with pytest.raises(IntegrityError, match=r"adjourn\.document differs from what was signed"):
        verify(str(saved_workspace.folder()))
    forger.write(forger.extra.document | {"callsUsed": 0}, calls_used=0)
    with pytest.raises(IntegrityError, match="callsUsed differs from what was signed"):
        verify(str(saved_workspace.folder()))


def test_a_signed_root_is_held_to_the_events(saved_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signature over another root than that of the audit log is refused."""
    forger = Forger(saved_workspace.folder())
    monkeypatch.setattr("adjourn.log.merkle.root", lambda leaves: b"r" * 32)
    forger.write(forger.extra.document)
    with pytest.raises(IntegrityError, match=r"the signed Merkle root does not match audit\.jsonl"):
        verify(str(saved_workspace.folder()))


# --- what is no plain file


@pytest.mark.parametrize("name", FILES)
def test_only_plain_files_of_a_sane_size_are_read(saved_workspace: Workspace, name: str) -> None:
    """A link, a pipe, a folder and a huge file in the place of either file are refused, and nothing hangs."""
    path = saved_workspace.folder() / name
    kept = saved_workspace.root / "kept"
    path.rename(kept)
    with pytest.raises(NotFoundError, match=f"{name} does not exist"):
        verify(str(saved_workspace.folder()))
    path.symlink_to(kept)
    with pytest.raises(InvalidError, match=f"{name} is a symbolic link"):
        verify(str(saved_workspace.folder()))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InvalidError, match=f"{name} is not a regular file"):
        verify(str(saved_workspace.folder()))
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidError, match=f"{name} is not a regular file"):
        verify(str(saved_workspace.folder()))
    path.rmdir()
    with path.open("wb") as file:
        file.truncate(1 + (MAX_JSON_BYTES if name == FILES[0] else MAX_AUDIT_BYTES))
    with pytest.raises(InvalidError, match=f"{name} is not a regular file of at most"):
        verify(str(saved_workspace.folder()))


@pytest.mark.parametrize("place", [".aex/checkpoints/fix-auth", ".aex/checkpoints", ".aex"])
@pytest.mark.parametrize("target", ["inside", "outside"])
def test_no_folder_is_reached_by_a_link(saved_workspace: Workspace, tmp_path: Path, place: str, target: str) -> None:
    """A folder behind a link is neither read nor written, wherever the link leads."""
    made = find(saved_workspace.store, "fix-auth")
    real = saved_workspace.root / place
    moved = (saved_workspace.root if target == "inside" else tmp_path) / "moved"
    real.rename(moved)
    real.symlink_to(moved)
    for attempt in (
        lambda: path_of(str(saved_workspace.root), "fix-auth"),
        lambda: is_as_written(saved_workspace.store, str(saved_workspace.root), "fix-auth"),
        lambda: write(saved_workspace.store, made, str(saved_workspace.root)),
    ):
        with pytest.raises(RefusedError, match=r"(is reached through|is a|is outside)"):
            attempt()


def test_a_link_in_the_place_of_a_file_is_replaced(saved_workspace: Workspace) -> None:
    """Writing touches nothing that a link points at."""
    target = saved_workspace.root / "precious"
    target.write_text("mine")
    for name in FILES:
        (saved_workspace.folder() / name).unlink()
        (saved_workspace.folder() / name).symlink_to(target)
    write(saved_workspace.store, find(saved_workspace.store, "fix-auth"), str(saved_workspace.root))
    assert target.read_text() == "mine"
    verify(str(saved_workspace.folder()))
