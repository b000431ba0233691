"""Where a login is kept, and that nothing shows it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from adjourn.errors import StoreError, UsageError
from adjourn.gateway.login_store import Login, alone, canonical, exists, forget, keep, read
from support.login import without_keyring

URL = "https://tracker.example/mcp"
LOGIN = Login(url=URL, issuer="https://login.example", access="token-a", refresh="token-r", scope="read")


class Locked(KeyringBackend):
    """A keyring that keeps passwords while it is open."""

    priority = 1

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def _check(self) -> None:
        if self.is_locked:
            raise KeyringLocked

    def get_password(self, service: str, username: str) -> str | None:
        self._check()
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._check()
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._check()
        del self.kept[service, username]


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path))
    without_keyring()
    yield tmp_path
    without_keyring()


def test_a_login_is_kept_in_a_file_for_its_user(own_keys: Path) -> None:
    """Without a keyring: mode 0600 in folders of mode 0700, replaced whole, deleted by a logout."""
    assert read(URL) is None
    with alone(URL):
        path = Path(keep(LOGIN))
    assert path.is_relative_to(own_keys / "keys" / "logins")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert read(URL + "#part") == read(URL) == LOGIN
    assert os.listdir(path.parent) == ["login.json"]
    assert forget(URL)
    assert not forget(URL)
    assert not exists(URL)


def test_a_login_is_kept_in_the_keyring_where_there_is_one(own_keys: Path) -> None:
    """Then no file has a token; a locked keyring is an error that says what to do, and takes no new login."""
    backend = Locked()
    keyring.core.set_keyring(backend)
    assert keep(LOGIN) == "keyring"
    assert read(URL) == LOGIN
    assert all(b"token-" not in path.read_bytes() for path in own_keys.rglob("*") if path.is_file())
    backend.is_locked = True
    with pytest.raises(StoreError, match="in the keyring") as caught:
        read(URL)
    assert "adjourn serve login" in caught.value.remedy
    with pytest.raises(StoreError, match="cannot be deleted"):
        forget(URL)
    assert keep(LOGIN).endswith("login.json")
    assert read(URL) == LOGIN
    backend.is_locked = False
    keep(LOGIN)
    assert forget(URL)
    assert backend.kept == {}


def test_a_login_shows_no_token() -> None:
    """Neither printed nor by its mark."""
    shown = f"{LOGIN} {LOGIN!r} {LOGIN.mark}"
    assert "token" not in shown


@pytest.mark.parametrize("text", ["", "{", '{"url":"https://other.example/mcp"}', '{"url":1}', "[]"])
def test_a_file_that_is_damaged_or_anothers_is_named(text: str) -> None:
    """It is not used, and the remedy is to log in again."""
    Path(keep(LOGIN)).write_text(text)
    with pytest.raises(StoreError) as caught:
        read(URL)
    assert caught.value.remedy == f"log in again: adjourn serve login {URL}"


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("HTTPS://Tracker.Example:443/mcp#x", URL),
        ("http://[::1]:80", "http://[::1]/"),
        ("http://h:8080/a?b=c", "http://h:8080/a?b=c"),
    ],
)
def test_spellings_of_one_address_are_one_login(url: str, same: str) -> None:
    """Letter case of the host, the default port and a fragment make no difference."""
    assert canonical(url) == same


@pytest.mark.parametrize("url", ["ftp://h/", "http://", "https://ann:pw@h/", "http://h:99999/", "http://h/\n"])
def test_an_address_that_cannot_have_a_login_is_refused(url: str) -> None:
    """Another scheme, no host, a password, an impossible port, a line end; the password is not repeated."""
    with pytest.raises(UsageError) as caught:
        canonical(url)
    assert "pw" not in str(caught.value)
