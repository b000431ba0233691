"""`adjourn serve login`, and what `adjourn connect`, `proxy --url` and `serve` do with the login: with a real authorization server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from mcp import Client, MCPError

from adjourn.errors import RefusedError
from adjourn.gateway import login_store
from adjourn.gateway.login_flow import LoginOptions, log_in
from support.certificates import make_certificate
from support.gateway import text_of
from support.login import LoginWorkspace, without_keyring
from support.ports import free_port
from support.proxy import wait_for
from support.terminal import at_terminal

KILLS = 40 if os.environ.get("ADJOURN_CAMPAIGN") == "1" else 3
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginWorkspace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADJOURN_CONFIG", "")
        patch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
        without_keyring()
        with LoginWorkspace(tmp_path_factory.mktemp("login")) as workspace:
            yield workspace


@pytest.fixture
def work(servers: LoginWorkspace, request: pytest.FixtureRequest) -> LoginWorkspace:
    servers.fresh(re.sub(r"\W", "-", request.node.name))
    return servers


def initialize(number: int) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "initialize", "params": INITIALIZE})


class Bridge(NamedTuple):
    """A running `adjourn connect`."""

    process: subprocess.Popen[str]

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line: str) -> str:
        self.say(line)
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@contextmanager
def bridging(work: LoginWorkspace) -> Iterator[Bridge]:
    with subprocess.Popen(
        [sys.executable, "-m", "adjourn", "connect", work.url], start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=work.root, env=work.environment,
    ) as process:  # fmt: skip
        yield Bridge(process)


async def echoed(client: Client, text: str = "hi") -> str:
    return text_of(await client.call_tool("echo", {"text": text}))


async def refusal(client: Client, tool: str = "echo") -> str:
    """Why a call fails."""
    with pytest.raises(MCPError) as caught:
        await client.call_tool(tool, {"text": "x"})
    return caught.value.message


def test_a_login_in_the_browser_opens_the_server(work: LoginWorkspace) -> None:
    """One login; then the proxy reaches the server. The tokens are in one file for the user alone, and nowhere else."""
    done = work.person("serve", "login", "--json", work.url)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kept"] == str(work.kept())
    assert work.grants() == ["register", f"authorize {work.url} mcp", "code"]
    assert stat.S_IMODE(work.kept().stat().st_mode) == 0o600
    assert stat.S_IMODE(work.kept().parent.stat().st_mode) == 0o700

    words = ("proxy", "--name", "up", "--url", work.url)
    assert work.run(echoed, *words) == "hi"
    assert work.grants() == ["register", f"authorize {work.url} mcp", "code"]
    for secret in work.secrets():
        assert secret not in done.stdout + done.stderr
        for path in [*work.root.rglob("*"), *work.config.rglob("*")]:
            assert path == work.kept() or not path.is_file() or secret.encode() not in path.read_bytes()


def test_without_a_login_the_error_says_what_to_run(work: LoginWorkspace) -> None:
    """The first request fails with the command; once it was run, the same session of the client works."""
    with bridging(work) as bridge:
        why = json.loads(bridge.ask(initialize(1)))["error"]["message"]
        assert why == f"{work.url} needs a login; run: adjourn serve login {work.url}"
        work.login()
        assert "result" in json.loads(bridge.ask(initialize(2)))


def test_a_server_that_wants_a_login_for_some_requests_only(work: LoginWorkspace) -> None:
    """Its first answer is no refusal, but its metadata say that it takes tokens; where there are none, no login is made."""
    work.behave(open=True)
    work.login()
    assert work.run(echoed) == "hi"
    with pytest.raises(RefusedError, match="asks for no login"):
        log_in(f"http://127.0.0.1:{work.authority_port}/", LoginOptions(), print)


def test_a_login_over_tls(tmp_path: Path) -> None:
    """Both servers speak TLS: with their certificate trusted all works, without it nobody is asked and nothing is sent."""
    certificate = make_certificate(tmp_path / "both.pem")
    with LoginWorkspace(tmp_path, certificate=certificate) as work:
        done = work.person("serve", "login", work.url)
        assert done.returncode == 0, done.stderr
        assert f"Logged in at {work.url}" in done.stdout
        assert work.run(echoed, "connect", work.url) == "hi"
        del work.environment["SSL_CERT_FILE"]
        before = work.grants()
        done = work.person("serve", "login", work.url)
        assert done.returncode == 1
        assert "certificate" in done.stderr.lower()
        with bridging(work) as bridge:
            assert "certificate" in bridge.ask(initialize(1)).lower()
        assert work.grants() == before


def test_only_a_person_logs_in(work: LoginWorkspace) -> None:
    """Without a terminal nobody logs in or out, and the authorization server is not even asked."""
    assert "no login is stored" in work.person("serve", "logout", work.url, terminal=False).stderr
    work.login()
    before = work.grants()
    for command in ("login", "logout"):
        done = work.person("serve", command, work.url, terminal=False)
        assert done.returncode == 3
        assert "speaks for a person" in done.stderr
    assert work.grants() == before


def test_an_old_token_is_renewed_once_for_many_calls(work: LoginWorkspace) -> None:
    """A token that expired: calls at the same time wait for one renewal, and succeed."""
    work.behave(lifetime=1)
    work.login()
    time.sleep(1.1)
    work.behave(lifetime=600)

    async def session(client: Client) -> None:
        assert await asyncio.gather(*(echoed(client, str(n)) for n in range(8))) == [str(n) for n in range(8)]
        assert work.grants()[-2:] == ["code", "refresh"]

    work.run(session)


def test_two_bridges_share_a_login(work: LoginWorkspace) -> None:
    """Two processes renew one token once: the refresh token is good for one use."""
    work.login()

    async def session(first: Client) -> None:
        async with Client(work.client()) as second:
            await echoed(first)
            await echoed(second)
            work.behave(revoked=time.time())
            assert list(await asyncio.gather(echoed(first, "a"), echoed(second, "b"))) == ["a", "b"]

    work.run(session)
    assert work.grants()[2:] == ["code", "refresh"]


def test_a_login_that_was_ended_needs_a_person_again(work: LoginWorkspace) -> None:
    """The authorization server refuses the refresh token: the error names the command, and no further renewal is tried."""
    work.login()

    async def session(client: Client) -> None:
        await echoed(client)
        now = time.time()
        work.behave(revoked=now, ended=now)
        assert f"run: adjourn serve login {work.url}" in await refusal(client)
        before = work.grants()
        assert f"the login at {work.url} has ended" in await refusal(client)
        assert work.grants() == before
        await asyncio.to_thread(work.login)
        assert await echoed(client) == "hi"

    work.run(session)


def test_an_authorization_server_that_is_down_ends_no_login(
    work: LoginWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it does not answer, calls fail with that reason; later the same login is renewed."""
    monkeypatch.setattr(login_store, "RETRY_SECONDS", 2.0)
    work.login()

    async def session(client: Client) -> None:
        await echoed(client)
        now = time.time()
        work.behave(revoked=now, down=True)
        assert "is not renewed" in await refusal(client)
        work.behave(revoked=now)
        await asyncio.sleep(2.1)  # a renewal that failed is not tried again at once
        assert await echoed(client) == "hi"

    work.run(session)


def test_a_token_for_another_server_is_refused(work: LoginWorkspace) -> None:
    """A token whose audience is not the server: one renewal, then an error, and no more attempts."""
    work.behave(audience="https://other.example/mcp")
    work.login()
    with bridging(work) as bridge:
        assert "a token that it was just given" in bridge.ask(initialize(1))
        bridge.ask(initialize(2))
    assert work.grants().count("refresh") <= 2  # one more where five seconds have passed


def test_more_rights_are_a_matter_of_another_login(work: LoginWorkspace) -> None:
    """The server wants a right that the login has not: the call had no effect, and the command in its error obtains it."""
    work.login()

    async def session(client: Client) -> None:
        why = await refusal(client, "write")
        assert f"(write); run: adjourn serve login --scope 'mcp write' {work.url}" in why
        assert work.called() == []
        assert await echoed(client) == "hi"
        await asyncio.to_thread(work.login, LoginOptions(scope="mcp write", browser=False))
        assert text_of(await client.call_tool("write", {"text": "one"})) == "written"

    work.run(session)
    assert work.called() == ["one"]
    assert f"authorize {work.url} mcp write" in work.grants()


def test_a_kill_in_the_middle_of_a_renewal_loses_no_login(work: LoginWorkspace) -> None:
    """The bridge is killed after the refresh token was used, before the answer: the new one is kept nevertheless."""
    work.login()
    work.behave(revoked=time.time(), late=1.0)
    before = work.secrets()
    with bridging(work) as bridge:
        bridge.say(initialize(1))
        wait_for(lambda: "refresh" in work.grants())
        os.killpg(bridge.process.pid, signal.SIGKILL)
    assert work.secrets() == before
    wait_for(lambda: work.secrets() != before)
    assert work.run(echoed) == "hi"
    assert work.grants().count("refresh") == 1


def test_kills_at_any_moment_lose_no_login(work: LoginWorkspace) -> None:
    """Each time the token was revoked, and the bridge is killed somewhere between its start and its answer; refresh tokens are good once."""
    work.login()
    for number in range(KILLS):
        work.behave(revoked=time.time(), late=0.2)
        with bridging(work) as bridge:
            bridge.say(initialize(1))
            time.sleep(2.5 * number / KILLS)
            os.killpg(bridge.process.pid, signal.SIGKILL)
    work.behave(revoked=time.time())
    assert work.run(echoed, "connect", work.url) == "hi"  # by then what the last one began has ended
    made = [grant for grant in work.grants() if grant == "refresh"]
    assert 1 <= len(made) <= KILLS + 1


def test_an_address_that_is_pasted(work: LoginWorkspace) -> None:
    """A browser on another machine: the person pastes the address that it ended at, after something that is no answer."""
    words = [sys.executable, "-m", "adjourn", "serve", "login", "--no-browser", work.url]
    done = at_terminal([sys.executable, "-c", PASTING, *words], cwd=work.root, env=work.environment)
    assert "This is not the answer" in done.stdout
    assert "Logged in" in done.stdout
    assert work.run(echoed) == "hi"


PASTING = """
import os, pty, re, sys, urllib.request
class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_): return None
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
text = ""
while (found := re.search(r"(http://[^\\s]*/authorize[^\\s]*).*press Enter", text.replace("\\r", ""), re.S)) is None:
    text += os.read(fd, 4096).decode()
try:
    urllib.request.build_opener(Stay).open(found[1])
except urllib.error.HTTPError as error:
    ended = error.headers["location"]
os.write(fd, b"hello?state=wrong&code=1\\n" + ended.encode() + b"\\n")
try:
    while data := os.read(fd, 4096):
        text += data.decode()
except OSError:
    pass
print(text)
"""
"""A terminal whose person does not let the browser follow the redirect, and pastes it instead."""


def test_a_client_that_the_authorization_server_knows(work: LoginWorkspace) -> None:
    """A given client id with its secret: nothing is registered, and the renewal uses the secret, too."""
    work.environment["OF_KNOWN"] = "of-known"
    words = ("--client-id", "known", "--client-secret-env", "OF_KNOWN", "--port", "8931")
    assert work.person("serve", "login", *words, work.url).returncode == 0
    assert "register" not in work.grants()
    work.behave(revoked=time.time())
    assert work.run(echoed) == "hi"
    assert work.grants()[-1] == "refresh"


def test_logins_are_listed_without_their_tokens(work: LoginWorkspace) -> None:
    """Server, issuer, rights, and whether it is renewed; nobody needs a terminal for it."""
    assert "no login is kept" in work.person("serve", "login", terminal=False).stdout
    work.login()
    listed = work.person("serve", "login", terminal=False).stdout
    assert re.search(rf"{re.escape(work.url)}\s+http://127.0.0.1:{work.authority_port}\s+mcp\s+is renewed", listed)
    (row,) = json.loads(work.person("serve", "login", "--json", terminal=False).stdout)["logins"]
    assert row == {
        "server": work.url,
        "issuer": f"http://127.0.0.1:{work.authority_port}",
        "rights": "mcp",
        "state": "is renewed",
    }
    assert not any(secret in listed for secret in work.secrets())


def test_a_logout_deletes_and_revokes(work: LoginWorkspace) -> None:
    """Nothing is left here, and the refresh token is of no use any more."""
    work.login()
    _, refresh = work.secrets()
    client = json.loads(work.kept().read_text())["login"]["client"]
    done = work.person("serve", "logout", work.url)
    assert done.stdout == "Logged out; the tokens are revoked.\n", done.stderr
    assert not list(work.config.rglob("login.json"))
    assert work.grants()[-1] == "revoke"
    given = {"grant_type": "refresh_token", "refresh_token": refresh} | {
        name: client[name] for name in ("client_id", "client_secret")
    }
    assert httpx.post(f"http://127.0.0.1:{work.authority_port}/token", data=given).status_code == 400
    done = work.person("serve", "logout", work.url)
    assert done.returncode == 1
    assert "no login is stored" in done.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"denied": True}, "access_denied"),
        ({"iss": "https://evil.example"}, "iss mismatch"),
        ({"metadata": {"issuer": "https://evil.example"}}, "issuer mismatch"),
        ({"metadata": {"token_endpoint": "http://evil.example/token"}}, "without encryption"),
        ({"metadata": {"authorization_endpoint": "http://evil.example/authorize"}}, "without encryption"),
        ({"metadata": {"code_challenge_methods_supported": ["plain"]}}, "PKCE"),
    ],
)
def test_a_login_that_is_not_safe_is_refused(work: LoginWorkspace, settings: dict[str, object], said: str) -> None:
    """A no of the person, an answer of another issuer, endpoints without encryption, no PKCE: nothing is kept."""
    work.behave(**settings)
    with pytest.raises(RefusedError, match=said):
        work.login()
    assert not list(work.config.rglob("login.json"))


def test_only_the_named_authorization_server_is_used(work: LoginWorkspace) -> None:
    """With `--issuer` a server that leads to another one gets no secret of the client, and asks nobody."""
    own = f"http://127.0.0.1:{work.authority_port}"
    with pytest.raises(RefusedError, match=f"leads to the authorization server {own}, not to"):
        work.login(
            LoginOptions(client_id="known", client_secret="of-known", issuer="https://mine.example", browser=False)
        )
    assert work.grants() == []
    work.login(LoginOptions(issuer=own + "/", browser=False))


def test_the_gateway_uses_the_login_of_its_user(work: LoginWorkspace, tmp_path: Path) -> None:
    """`login = true`: clients of the gateway need no token of the server; without the login the log says what to run."""
    port = free_port()
    (work.root / "adjourn.toml").write_text(
        f'listen = "127.0.0.1:{port}"\n[servers.up]\nurl = "{work.url}"\nlogin = true\n'
    )
    log = tmp_path / "gateway.log"
    with log.open("w") as stderr, subprocess.Popen(
        [sys.executable, "-m", "adjourn", "serve"], cwd=work.root, env=work.environment, stdout=subprocess.PIPE, stderr=stderr, text=True
    ) as gateway:  # fmt: skip
        assert gateway.stdout is not None
        gateway.stdout.readline()

        async def session() -> str:
            said = ""
            try:
                async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                    said = await echoed(client)
            except* MCPError as group:
                said = str(group.exceptions)
            return said

        try:
            told = asyncio.run(session())
            assert "the server needs a login" in told
            assert work.url not in told
            assert f"run: adjourn serve login {work.url}" in log.read_text()
            work.login()
            assert asyncio.run(session()) == "hi"
        finally:
            gateway.terminate()
