"""`adjourn.toml` is read strictly: what cannot be used is named, with the remedy."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from adjourn.errors import AdjournError, RefusedError, UsageError
from adjourn.gateway.server import listen
from adjourn.gateway.settings import GatewaySettings, ServerSettings, read_settings, secret_files, store_files

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
        ("", "names no server"),
        (SERVER + '[authorize]\nlisten = "9001"', "listen is '9001'"),
        (SERVER + '[authorize]\nlisten = "127.0.0.1:8080"', "the address of another listener"),
        ("[servers]", "names no server"),
        ('[servers.a]\ncommand = ["x"]\nenv = {ADJOURN_STORE = "x"}', "cannot have the variable"),
        ('[servers.a]\ncommand = ["x"]\nenv = {"A=B" = "x"}', "cannot have the variable"),
        ('[servers.a]\ncommand = ["x"]\nenv_from = {A = "ADJOURN_STORE"}', "cannot have the variable"),
        ('[servers.a]\ncommand = ["x"]\nenv = {A = "x"}\nenv_from = {A = "B"}', "no usable value for A"),
        (SERVER + 'env = {A = "x"}', "has variables, and is not a command"),
        (SERVER + "shared = true", "is shared, and is not a command"),
        (SERVER + 'ca = "x"', "no https url"),
        (
            SERVER + '[auth]\nkeys = true\n[[auth.issuers]]\nissuer = "https://i"\nresource = "https://g"',
            "[auth.oauth] is missing",
        ),
        *(
            (
                (
                    f'{SERVER}[auth.oauth]\nissuer = "https://i"\nresource = "https://g"\n'
                    f'[[auth.issuers]]\nissuer = "{other}"\nresource = "{resource}"'
                ),
                said,
            )
            for other, resource, said in (
                ("https://i", "https://g", "name an issuer twice"),
                ("https://j", "https://h", "several resources"),
                ("http://j", "https://g", "issuer of [auth.oauth]"),
            )
        ),
        ('[servers.a]\nurl = "https://a.example/mcp"\nkey = "x"', "a key without a certificate"),
        *(
            (f'[servers.a]\nurl = "https://a.example/mcp"\nproxy = "{proxy}"', "the proxy of a cannot be used")
            for proxy in ("proxy.example:3128", "https://proxy.example", "http://me:secret@proxy.example")
        ),
        (SERVER + '[auth.oauth]\nissuer = "https://i"\nresource = "https://g"\nprovider = "google"', "provider"),
        (
            SERVER
            + '[auth.oauth]\nissuer = "https://i"\nresource = "https://g"\nperson = {claim = "", values = ["x"]}',
            "no claim or no value",
        ),
        (
            SERVER
            + '[auth.oauth]\nissuer = "https://i"\nresource = "https://g"\nperson = {claim = "c", values = ["x", ""]}',
            "no claim or no value",
        ),
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
    with pytest.raises(RefusedError, match="open to other machines"):
        listen(settings(tmp_path, 'listen = "0.0.0.0:0"\n' + SERVER))
    listen(settings(tmp_path, 'listen = "127.0.0.1:0"\n' + SERVER)).close()
    listen(settings(tmp_path, 'listen = "0.0.0.0:0"\n' + SERVER + "[auth]\nkeys = true\n")).close()
    with pytest.raises(RefusedError, match="open to other machines"):
        listen(settings(tmp_path, 'listen = "127.0.0.1:0"\n[authorize]\nlisten = "0.0.0.0:9001"\n'))


def test_an_address_for_another_gateway_has_to_be_free(tmp_path: Path) -> None:
    """Where something listens already, the start ends with the address, before any client is served."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
            listen(settings(tmp_path, f'listen = "127.0.0.1:0"\n[authorize]\nlisten = "127.0.0.1:{port}"\n'))


AUTH = SERVER + "[auth]\nkeys = true\n"


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ('listen = "127.0.0.1:8090"\n', ""),
        ('listen = "0.0.0.0:8090"\norigin = "https://inbox.example.com"\n', ""),
        ('listen = "8090"\n', "listen is '8090'"),
        ('listen = "127.0.0.1:8080"\n', "the port of another listener"),
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
    with pytest.raises(AdjournError, match=r"\[auth\] is missing"):
        settings(tmp_path, f'{SERVER}[page]\nlisten = "127.0.0.1:8090"\n')


def test_files_with_secrets_that_settings_name(tmp_path: Path) -> None:
    """By the name of an option, of a variable or of the file; not what a server is there to serve."""
    for name in ("a.dat", "b.dat", "c.dat", "server.pem", "notes.db", "secret.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "store").mkdir()
    (tmp_path / "secrets").mkdir()
    words = [
        "serve", "--token-file", "a.dat", "--key=b.dat", "server.pem", "secret.txt", "notes.db", "secrets", "--secret", ".",
        "--cert", "missing", "--credentials", "store",
    ]  # fmt: skip
    given = ServerSettings(command=tuple(words), env={"API_KEY_FILE": "c.dat", "API_KEY": "sk-1", "MODE": "x"})
    found = secret_files(GatewaySettings(servers={"a": given}), str(tmp_path))
    wanted = ("a.dat", "b.dat", "server.pem", "secret.txt", "store", "c.dat")
    assert sorted(found) == sorted(str(tmp_path / name) for name in wanted)


def test_files_that_open_the_store(tmp_path: Path) -> None:
    """Of a PostgreSQL store: those of its URL, of variables, and the usual ones."""
    url = f"postgresql://h/db?sslkey={tmp_path}/k.pem&sslmode=require"
    found = store_files(url, {"PGPASSFILE": f"{tmp_path}/pass"})
    assert {f"{tmp_path}/k.pem", f"{tmp_path}/pass"} < set(found)
    assert any(file.endswith("/.pgpass") for file in found)
    assert store_files("sqlite:/x/y.db", {"PGPASSFILE": "/p"}) == ()
