"""Signatures beside contracts: sealed with the user's key, checked with the trusted ones, required where the policy says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adjourn.aex import seal
from adjourn.errors import IntegrityError, InvalidError, UsageError
from adjourn.host import keys
from adjourn.log.signing import fingerprint, public_key
from adjourn.policy import signatures
from adjourn.policy.contract import BrokenContractError, read_contract

TEXT = b'task look v0\ngoal "look"\nuse file.read\nreturn 1\n'
TIME = "2026-05-02T15:30:12.345Z"
BOB = bytes(32)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config"


def by_bob(text: bytes = TEXT, signer: str = "bob") -> bytes:
    return seal.written(seal.sign(text, BOB, file="look.aex", signer=signer, signed_at=TIME))


def own(signer: str = "ann", secret: bytes | None = None) -> bytes:
    return seal.written(signatures.sign("a/look.aex", TEXT, signer=signer, signed_at=TIME, secret=secret))


# --- verify


def test_what_i_signed_holds_under_my_name() -> None:
    """My own key is trusted, and may say any name of me; the file is named without its folder."""
    held = signatures.verify(TEXT, own("ann"), signer="ann")
    assert (held.names, held.seal.signer, held.seal.file, held.only_text) == (["default"], "ann", "look.aex", False)
    with pytest.raises(IntegrityError, match="by 'ann', not by 'bob'"):
        signatures.verify(TEXT, own("ann"), signer="bob")


def test_others_count_by_the_names_that_i_gave_them() -> None:
    """An unknown key is refused; a trusted one holds, and its name is the one that I gave it, not the one it says."""
    with pytest.raises(IntegrityError, match="which you do not trust") as refusal:
        signatures.verify(TEXT, by_bob())
    assert "adjourn keys trust" in refusal.value.remedy
    keys.trust("bob", public_key(BOB))
    assert signatures.verify(TEXT, by_bob(), signer="bob").names == ["bob"]
    with pytest.raises(IntegrityError, match="by 'bob', not by 'ann'"):
        signatures.verify(TEXT, by_bob(signer="ann"), signer="ann")


def test_a_secret_is_for_what_a_secret_signed() -> None:
    """Both ways: its signature needs one, and that of a key takes none."""
    held = signatures.verify(TEXT, own("ann", b"s3cret"), secret=b"s3cret", signer="ann")
    assert (held.names, held.seal.shared) == ([], True)
    with pytest.raises(IntegrityError, match="not by 'bob'"):
        signatures.verify(TEXT, own("ann", b"s3cret"), secret=b"s3cret", signer="bob")
    with pytest.raises(UsageError, match="shared secret"):
        signatures.verify(TEXT, own("ann", b"s3cret"))
    with pytest.raises(UsageError, match="not with a shared secret"):
        signatures.verify(TEXT, own("ann"), secret=b"s3cret")


# --- secrets in files


@pytest.mark.parametrize("text", ["s3cret", "  s3cret\n", "\ufeffs3cret\r\n"])
def test_a_secret_is_read_without_the_blanks_around_it(tmp_path: Path, text: str) -> None:
    """A secret is read without surrounding blanks, as the published tool reads it."""
    path = tmp_path / "secret"
    path.write_text(text, "utf-8")
    assert signatures.read_secret(str(path)) == b"s3cret"


@pytest.mark.parametrize("data", [b"", b" \n", b"\xff", b"x" * (signatures.MAX_SECRET + 1), None])
def test_what_holds_no_secret_is_refused(tmp_path: Path, data: bytes | None) -> None:
    """An empty, unreadable, huge or missing file: its name is shown, not its content."""
    path = tmp_path / "secret"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InvalidError, match="secret"):
        signatures.read_secret(str(path))


# --- required


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace whose policy wants contracts signed by bob, and an unsigned contract."""
    keys.trust("bob", public_key(BOB))
    root = tmp_path / "work"
    (root / ".aex").mkdir(parents=True)
    (root / ".aex" / "policy.aex").write_text('policy work v1\ngoal "do it"\nallow file.read\nrequire signed by bob\n')
    (root / "look.aex").write_bytes(TEXT)
    return root


def refusal(root: Path) -> str:
    with pytest.raises(BrokenContractError) as refused:
        read_contract(str(root), contract="look.aex")
    (found,) = refused.value.findings
    assert (found.code, found.severity, found.source) == ("AEX150", "error", "look.aex")
    return found.message


def test_an_unsigned_contract_does_not_start(root: Path) -> None:
    """The reason names whose signature is missing."""
    assert "not signed; the policy requires `bob`" in refusal(root)


def test_a_signed_contract_starts(root: Path) -> None:
    """A signed contract starts and works under the policy as any other."""
    (root / "look.aex.signature.json").write_bytes(by_bob())
    found = read_contract(str(root), contract="look.aex")
    assert [rule.pattern for rule in found.policy.allow] == ["file.read"]


def test_without_a_contract_there_is_nothing_to_sign(root: Path) -> None:
    """The policy is trusted as it is."""
    assert read_contract(str(root)).contract_source == ""


def test_a_changed_contract_does_not_start(root: Path) -> None:
    """Not one byte may differ from what was signed."""
    (root / "look.aex.signature.json").write_bytes(by_bob())
    (root / "look.aex").write_bytes(TEXT + b"\n")
    assert "not the one that was signed" in refusal(root)


def test_a_signature_of_another_does_not_start(root: Path) -> None:
    """Not even of the user's own key: the policy names bob."""
    (root / "look.aex.signature.json").write_bytes(own("bob"))
    assert f"{fingerprint(keys.own_public_key())}, which is not the key of `bob`" in refusal(root)


def test_a_signer_who_is_no_longer_trusted_does_not_count(root: Path) -> None:
    """Trust is looked up at each start."""
    (root / "look.aex.signature.json").write_bytes(by_bob())
    keys.distrust("bob")
    assert "no trusted key is named `bob`" in refusal(root)


@pytest.mark.parametrize("what", ["link", "folder", "pipe", "huge", "garbage"])
def test_what_is_no_signature_file_does_not_start(root: Path, what: str) -> None:
    """No link is followed, nothing is waited for, and the reason is shown."""
    path = root / "look.aex.signature.json"
    if what == "link":
        (root / "elsewhere").write_bytes(by_bob())
        path.symlink_to("elsewhere")
    elif what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"x" * 100_000 if what == "huge" else b"x")
    assert "look.aex.signature.json" in refusal(root) or what == "garbage"


def test_a_trusted_key_that_cannot_be_read_does_not_start(root: Path, config: Path) -> None:
    """Nothing starts with a trusted key that cannot be read."""
    (root / "look.aex.signature.json").write_bytes(by_bob())
    (config / "keys" / "trusted" / "bob.pub").write_text("?")
    assert "cannot read key" in refusal(root)


def test_a_json_policy_rules_a_workspace(root: Path) -> None:
    """It is read with its bases; the contract narrows it; the text on record says all of it."""
    (root / "base.json").write_text('{"allow": ["file.read", "file.write"], "budget": {"calls": 9}}')
    (root / "p.json").write_text('{"extends": "base.json", "deny": ["network.*"]}')
    found = read_contract(str(root), policy="p.json", contract="look.aex")
    assert [str(rule) for rule in found.policy.allow] == ["allow file.read (look.aex:3)"]
    assert str(found.policy.budget_rule) == "budget calls=9 (base.json:1)"
    assert "file.write" in found.policy_text
    (root / "base.json").write_text('{"alow": []}')
    with pytest.raises(BrokenContractError) as refused:
        read_contract(str(root), policy="p.json")
    assert [finding.source for finding in refused.value.findings] == ["base.json"]
    assert set(refused.value.texts) == {"p.json", "base.json"}
