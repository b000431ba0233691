"""Keys are made once, kept private and outside the workspace, and never overwritten."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from base64 import b64encode
from pathlib import Path

import pytest

from adjourn.errors import ConflictError, InvalidError, NotFoundError, RefusedError, StoreError
from adjourn.host import keys
from adjourn.host.workspace_store import open_at
from adjourn.log.signing import fingerprint, public_key
from adjourn.policy import signatures

BOB = public_key(bytes(32))


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration folder of the test, which does not exist yet."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config"


def test_keys_are_made_once(config: Path) -> None:
    """The first use makes a key of 32 random bytes; later uses find the same one."""
    private, secret = keys.private_key(), keys.secret()
    assert (len(private), len(secret)) == (32, 32)
    assert private != secret
    assert (keys.private_key(), keys.secret()) == (private, secret)
    assert (config / "keys" / "default.key").read_bytes() == b64encode(private) + b"\n"
    assert keys.own_public_key() == public_key(private)


def test_a_key_file_that_changes_is_read_again(config: Path) -> None:
    """A key that was replaced, or written over, is used from then on; one that was removed is made again."""
    first = keys.private_key()
    path = config / "keys" / "default.key"
    replaced = path.with_name("new")
    replaced.write_bytes(b64encode(bytes(32)))
    replaced.rename(path)
    assert keys.private_key() == bytes(32)
    path.write_bytes(b64encode(bytes([1] * 32)) + b"\n")
    assert keys.private_key() == bytes([1] * 32)
    path.unlink()
    assert keys.private_key() not in (first, bytes(32), bytes([1] * 32))


def test_keys_are_private(config: Path) -> None:
    """Key files can be read by their owner only, and nothing else is left beside them."""
    keys.private_key()
    keys.secret()
    assert {path.name for path in (config / "keys").iterdir()} == {"default.key", "secret"}
    for path in (config / "keys").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((config / "keys").stat().st_mode) == 0o700


def test_a_wide_umask_makes_no_wide_key(config: Path) -> None:
    """The mode of a key file does not depend on the umask."""
    before = os.umask(0)
    try:
        keys.private_key()
    finally:
        os.umask(before)
    assert stat.S_IMODE((config / "keys" / "default.key").stat().st_mode) == 0o600


def test_a_key_is_on_disk_under_its_name_before_it_is_used(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sealed or signed with a key can still be checked after the power fails."""
    steps: list[str] = []
    link = os.link

    def fsync(handle: int) -> None:
        steps.append("fsync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "fsync file")

    def spy(source: str, target: str) -> None:
        steps.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", spy)
    keys.secret()
    linked = steps.index("link")
    assert "fsync file" in steps[:linked]
    assert "fsync folder" in steps[linked:]


def test_threads_that_make_a_key_at_once_agree() -> None:
    """Concurrent first requests for the key all get the same key."""
    barrier = threading.Barrier(8)
    found: list[bytes] = []

    def ask() -> None:
        barrier.wait()
        found.append(keys.private_key())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_processes_that_make_a_key_at_once_agree(config: Path) -> None:
    """Two processes that both find no key end with the same one, and leave no other file."""
    code = "import sys; from adjourn.host import keys; sys.stdin.readline(); print(keys.secret().hex())"
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for child in running:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    found = {child.communicate()[0].strip() for child in running}
    assert found == {keys.secret().hex()}
    assert [path.name for path in (config / "keys").iterdir()] == ["secret"]


def test_a_key_that_came_first_stays(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When another process makes the key between looking and writing, its key is used."""
    (config / "keys").mkdir(parents=True)
    first = b64encode(b"f" * 32) + b"\n"
    link = os.link

    def late(source: str, target: str) -> None:
        Path(target).write_bytes(first)
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    assert keys.private_key() == b"f" * 32
    assert [path.name for path in (config / "keys").iterdir()] == ["default.key"]


def test_where_keys_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """ADJOURN_CONFIG wins over XDG_CONFIG_HOME, that over ~/.config; a relative XDG_CONFIG_HOME is none."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "/xdg")
    assert keys.folder() == str(tmp_path / "config" / "keys")
    monkeypatch.delenv("ADJOURN_CONFIG")
    assert keys.folder() == "/xdg/adjourn/keys"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert keys.folder() == str(tmp_path / ".config" / "adjourn" / "keys")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert keys.folder() == str(tmp_path / ".config" / "adjourn" / "keys")


def test_trusted_keys() -> None:
    """One's own key is trusted as soon as it is made; others by name, until they are not."""
    assert keys.trusted() == {}
    own = keys.own_public_key()
    assert keys.trusted() == {"default": own}
    assert keys.trust("bob", BOB) == fingerprint(BOB)
    assert keys.trusted() == {"default": own, "bob": BOB}
    assert keys.trust("bob", BOB) == fingerprint(BOB)
    keys.distrust("bob")
    assert "bob" not in keys.trusted()
    with pytest.raises(NotFoundError, match="no trusted key is named 'bob'"):
        keys.distrust("bob")


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../default", "a b", "a\0", "a\n"])
def test_names_of_keys_are_plain(name: str, config: Path) -> None:
    """A name that could leave the folder, or hide in it, is refused and writes nothing."""
    with pytest.raises(InvalidError, match="not a valid name for a key"):
        keys.trust(name, BOB)
    assert not (config / "keys" / "trusted").exists()


def test_distrusting_stays_in_its_folder(config: Path) -> None:
    """A name with a path in it deletes nothing outside the trusted keys."""
    config.mkdir()
    (config / "other.pub").write_text("x")
    with pytest.raises(NotFoundError):
        keys.distrust("../../other")
    assert (config / "other.pub").exists()


def test_other_files_among_the_trusted_are_passed_over(config: Path) -> None:
    """Only NAME.pub is a trusted key."""
    keys.trust("bob", BOB)
    (config / "keys" / "trusted" / "README").write_text("hello")
    assert set(keys.trusted()) == {"bob"}


def test_a_trusted_name_keeps_its_key() -> None:
    """Another key under a name that is taken is refused, and the first stays trusted."""
    keys.trust("bob", BOB)
    with pytest.raises(ConflictError, match="another key is trusted as 'bob'"):
        keys.trust("bob", public_key(b"x" * 32))
    assert keys.trusted()["bob"] == BOB


def test_nobody_else_is_called_default() -> None:
    """The name of one's own key cannot be given to another."""
    own = keys.own_public_key()
    with pytest.raises(InvalidError, match="your own key"):
        keys.trust("default", BOB)
    assert keys.trusted() == {"default": own}


@pytest.mark.parametrize(
    "content", [b"", b"AAAA\n", b"not base64 at all\n", b"\xff" * 44, b64encode(bytes(33)), b64encode(bytes(31))]
)
def test_a_key_that_cannot_be_read_is_not_replaced(content: bytes, config: Path) -> None:
    """A damaged key raises StoreError that names the file, and is left for a person to see to."""
    path = config / "keys" / "default.key"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"cannot read key .*default\.key.*restore it"):
        keys.private_key()
    assert path.read_bytes() == content


def test_a_folder_in_the_place_of_a_key_is_an_error(config: Path) -> None:
    """A key that is a folder, or cannot be read for another reason, raises StoreError."""
    (config / "keys" / "default.key").mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot read key"):
        keys.private_key()


def test_a_damaged_trusted_key_is_an_error_and_not_distrust(config: Path) -> None:
    """A trusted key that cannot be read is shown, not silently left out."""
    keys.trust("bob", BOB)
    (config / "keys" / "trusted" / "bob.pub").write_bytes(b"damaged")
    with pytest.raises(StoreError, match=r"bob\.pub"):
        keys.trusted()


def test_a_place_that_cannot_be_written_is_told(config: Path) -> None:
    """Where no key can be made the error names the file and the way out."""
    config.write_text("a file where a folder should be")
    with pytest.raises(StoreError, match=r"(cannot write|cannot read) key .*default\.key"):
        keys.private_key()


def test_a_failed_write_leaves_nothing(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the file cannot be put in its place, no half-made one stays behind."""

    def refuse(source: str, target: str) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StoreError, match=r"cannot write key .*default\.key: .*not permitted \(.*ADJOURN_CONFIG"):
        keys.private_key()
    assert list((config / "keys").iterdir()) == []


# --- keys in a workspace would be an agent's


def test_a_store_is_not_opened_with_keys_in_the_workspace(config: Path, tmp_path: Path) -> None:
    """No store opens while the keys lie in the workspace, because an agent could then sign."""
    work = tmp_path / "work"
    for root in (tmp_path, config, config / "keys"):
        with pytest.raises(RefusedError, match=r"keys .*ADJOURN_CONFIG"):
            open_at(str(root), "other.db")
    work.mkdir()
    open_at(str(work), "other.db").close()
    (tmp_path / "configuration").mkdir()
    open_at(str(tmp_path / "configuration"), "other.db").close()  # its name begins as that of the keys' folder does


def test_no_signature_counts_by_keys_in_the_workspace(config: Path, tmp_path: Path) -> None:
    """A contract that needs a signature is refused if the trusted keys are inside the workspace."""
    (tmp_path / "look.aex").write_text("task look v0\n")
    (tmp_path / "look.aex.signature.json").write_text("{}")
    found = signatures.required(str(tmp_path), "look.aex", b"task look v0\n", ["default"], "look.aex")
    assert found is not None
    assert "keys are inside the workspace" in found.message
