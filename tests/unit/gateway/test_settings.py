"""`adjourn.toml` is read strictly: what cannot be used is named, with the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjourn.errors import AdjournError, RefusedError
from adjourn.gateway.server import listen
from adjourn.gateway.settings import GatewaySettings, ServerSettings, read_settings

SERVER = '[servers.a]\nurl = "http://127.0.0.1:1/mcp"\n'


def settings(path: Path, text: str) -> GatewaySettings:
    (path / "adjourn.toml").write_text(text, encoding="utf-8")
    return read_settings(str(path / "adjourn.toml"))


def test_a_file_is_read(tmp_path: Path) -> None:
    """Both kinds of servers, the address, further names."""
    text = f'listen = "[::1]:9000"\nhosts = ["gw.example"]\n{SERVER}[servers.b]\ncommand = ["x", "-y"]\nseconds = 5\n'
    assert settings(tmp_path, text) == GatewaySettings(
        servers={
            "a": ServerSettings(url="http://127.0.0.1:1/mcp"),
            "b": ServerSettings(command=("x", "-y"), seconds=5),
        },
        listen="[::1]:9000",
        hosts=("gw.example",),
    )
    assert settings(tmp_path, text).address == ("::1", 9000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "servers"),
        ("[servers]", "names no server"),
        ("listen = 1\n" + SERVER, "Expected `str`"),
        ('listen = "8080"\n' + SERVER, "listen is '8080'"),
        ('listen = "h:99999"\n' + SERVER, "listen is"),
        ("[servers.a]\n", "either a url or a command"),
        (SERVER + 'command = ["x"]\n', "either a url or a command"),
        ('[servers.a]\nurl = "ftp://h/"\n', "the url of a"),
        ('[servers."a b"]\nurl = "http://h/"\n', "not a server's name"),
        (SERVER + "second = 5\n", "second"),
        (SERVER + "seconds = 0\n", ">= 1"),
        ('[servers.a]\ncommand = ["x"]\nbearer_env = "T"\n', "a is a command, and has T"),
        (SERVER + 'headers_env = {Host = "T"}\n', "cannot be sent the header 'Host'"),
        (SERVER + 'headers_env = {"Mcp-Session-Id" = "T"}\n', "'Mcp-Session-Id'"),
        (SERVER + 'headers_env = {"a\\r\\nb" = "T"}\n', "cannot be sent the header"),
        ("= 5", "adjourn.toml"),
    ],
)
def test_a_defect_is_named(tmp_path: Path, text: str, said: str) -> None:
    """A missing, unknown or impossible member, and a file that is not TOML."""
    with pytest.raises(AdjournError, match=said.replace("[", r"\[")) as caught:
        settings(tmp_path, text)
    assert caught.value.remedy


def test_only_this_machine_is_served(tmp_path: Path) -> None:
    """An address that other machines reach is refused, as long as nobody can tell who asks."""
    with pytest.raises(RefusedError, match="reached by other machines"):
        listen(settings(tmp_path, 'listen = "0.0.0.0:0"\n' + SERVER))
    listen(settings(tmp_path, 'listen = "127.0.0.1:0"\n' + SERVER)).close()
    listen(settings(tmp_path, 'listen = "0.0.0.0:0"\n' + SERVER + "[auth]\nkeys = true\n")).close()


AUTH = SERVER + "[auth]\nkeys = true\n"


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ('listen = "127.0.0.1:8090"\n', ""),
        ('listen = "0.0.0.0:8090"\norigin = "https://inbox.example.com"\n', ""),
        ('listen = "8090"\n', "listen is '8090'"),
        ('listen = "127.0.0.1:8080"\n', "a port that is taken"),
        ('listen = "0.0.0.0:8090"\n', "sent unencrypted"),
        ('listen = "0.0.0.0:8090"\norigin = "http://inbox.example.com"\n', "sent unencrypted"),
        ('listen = "0.0.0.0:8090"\norigin = "https://inbox.example.com/"\n', "without a path"),
        ('listen = "0.0.0.0:8090"\norigin = "inbox.example.com"\n', "write the https address"),
    ],
)
def test_a_page_for_people_has_an_address_where_keys_are_safe(tmp_path: Path, page: str, said: str) -> None:
    """Over https, or on this machine."""
    text = f'listen = "127.0.0.1:8080"\n{AUTH}[page]\n{page}'
    if not said:
        assert settings(tmp_path, text).page.listen
        return
    with pytest.raises(AdjournError) as caught:
        settings(tmp_path, text)
    assert said in f"{caught.value}: {caught.value.remedy}"


def test_a_page_for_people_needs_a_login(tmp_path: Path) -> None:
    """Nowhere without a way to tell who asks, not even on this machine."""
    with pytest.raises(AdjournError, match="nothing tells who asks"):
        settings(tmp_path, f'{SERVER}[page]\nlisten = "127.0.0.1:8090"\n')
