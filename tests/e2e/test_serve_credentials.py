"""What the gateway shows its servers: their own credentials from its environment, and nothing of its clients."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from support.gateway import SERVER
from support.in_process_gateway import InProcessGateway
from support.token_issuer import TokenIssuer

VARIABLES = {"UP_TOKEN": "of-up", "UP_KEY": "key-of-up"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
DISCOVER = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}}


class Recorder(ThreadingHTTPServer):
    """A server that answers everything, or refuses it, and keeps the headers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.seen: list[dict[str, str]] = []
        self.status = 200


class _Answer(BaseHTTPRequestHandler):
    server: Recorder

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append({name.lower(): value for name, value in self.headers.items()})
        body = json.dumps({"jsonrpc": "2.0", "id": request.get("id"), "result": {}}).encode()
        self.send_response(self.server.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("www-authenticate", 'Bearer resource_metadata="http://127.0.0.1/secret-place"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's word
        pass


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@contextmanager
def serving(path: Path, servers: str) -> Iterator[str]:
    """The address of a gateway with these servers."""
    with InProcessGateway(path, "allow *", over="", settings=servers, variables=VARIABLES) as work:
        yield work.url("")


def asked(address: str, method: str = "server/discover", **headers: str) -> httpx.Response:
    accepted = {
        "accept": "application/json, text/event-stream",
        "mcp-method": method,
        "mcp-protocol-version": "2026-07-28",
    }
    return httpx.post(address, json=DISCOVER | {"method": method}, headers=accepted | headers, timeout=20)


def test_a_server_gets_its_own_credentials_and_not_the_clients(tmp_path: Path, recorder: Recorder) -> None:
    """Token and header come from the variables; a client's Authorization and cookies stay at the gateway."""
    url = f"http://127.0.0.1:{recorder.server_port}/mcp"
    servers = f'[servers.up]\nurl = "{url}"\nbearer_env = "UP_TOKEN"\nheaders_env = {{X-Api-Key = "UP_KEY"}}\n'
    with serving(tmp_path, servers) as address:
        assert "result" in asked(f"{address}/mcp", authorization="Bearer of-the-client", cookie="a=b").json()
    (seen,) = recorder.seen
    assert seen["authorization"] == "Bearer of-up"
    assert seen["x-api-key"] == "key-of-up"
    assert "cookie" not in seen


@pytest.mark.parametrize(("settings", "said"), [('bearer_env = "UP_TOKEN"\n', "refuses what UP_TOKEN has"), ("", "wants a login")])  # fmt: skip
def test_a_refusal_of_the_server_is_an_error_that_says_whose(
    tmp_path: Path, recorder: Recorder, settings: str, said: str
) -> None:
    """A 401 of the server is no challenge for the client of the gateway: an error names the variable, not its value."""
    recorder.status = 401
    servers = f'[servers.up]\nurl = "http://127.0.0.1:{recorder.server_port}/mcp"\n{settings}'
    with serving(tmp_path, servers) as address:
        answer = asked(f"{address}/mcp")
    assert said in answer.json()["error"]["message"]
    assert "of-up" not in answer.text
    assert "www-authenticate" not in answer.headers
    assert len(recorder.seen) == 1


def test_a_server_that_is_a_command_gets_no_credentials_of_another(tmp_path: Path) -> None:
    """The variables of the gateway are not in the environment of one that is started, whoever they are for."""
    words = [
        "sh",
        "-c",
        'env > "$0/variables"; exec "$@"',
        str(tmp_path),
        sys.executable,
        str(SERVER),
        "0",
        str(tmp_path),
    ]
    servers = f'[servers.up]\nurl = "http://127.0.0.1:9/"\nbearer_env = "UP_TOKEN"\n[servers.local]\ncommand = {json.dumps(words)}\n'
    with serving(tmp_path, servers) as address:
        assert "result" in asked(f"{address}/local/mcp").json()
    variables = (tmp_path / "variables").read_text()
    assert "UP_TOKEN" not in variables
    assert "UP_KEY" not in variables  # which nobody named as this server's


def test_a_variable_that_is_not_set_is_named_at_the_start(tmp_path: Path) -> None:
    """The gateway does not start without what a server needs."""
    (work := tmp_path / "work").mkdir()
    (work / ".aex").mkdir()
    (work / ".aex" / "policy.aex").write_text("policy shop v1\nallow *\n")
    (work / "adjourn.toml").write_text('[servers.up]\nurl = "http://127.0.0.1:9/"\nbearer_env = "NO_SUCH"\n')
    done = subprocess.run(
        [sys.executable, "-m", "adjourn", "serve"], cwd=work, capture_output=True, text=True, timeout=30, check=False,
        env={**os.environ, "ADJOURN_CONFIG": str(tmp_path / "config")},
    )  # fmt: skip
    assert done.returncode == 2
    assert "the variable NO_SUCH has no token" in done.stderr


@pytest.mark.parametrize("path", ["/up/mcp", "/mcp"])
def test_each_person_has_a_token_of_their_own_at_a_server(tmp_path: Path, recorder: Recorder, path: str) -> None:
    """It is made from the person's token, which the server never sees; one person who gets none keeps nobody else from the server."""
    url = f"http://127.0.0.1:{recorder.server_port}/mcp"
    with TokenIssuer() as issuer:
        give = issuer.answers["/token"]
        tokens = {name: issuer.token({"sub": name}) for name in ("ann", "bob")}
        issuer.answers["/token"] = lambda form: give(form) if form["subject_token"] != tokens["bob"] else (400, {})
        servers = f"""
[auth.oauth]
issuer = "{issuer.url}"
resource = "https://gateway.example.com"
[servers.other]
url = "{url}"
[servers.up]
url = "{url}"
exchange = {{url = "{issuer.url}/token", client = "gateway", secret_env = "SECRET", audience = "up"}}
"""
        variables = {"SECRET": "of-gateway"}
        with InProcessGateway(tmp_path, "allow *", over="", settings=servers, variables=variables) as work:
            answers = [
                asked(f"{work.url('')}{path}", "tools/list", authorization=f"Bearer {tokens[name]}")
                for name in ("bob", "ann", "ann")
            ]
    shown = {seen.get("authorization", "") for seen in recorder.seen}
    assert shown - {""} == {"Bearer ann-at-up"}
    assert [form["audience"] for _, form in issuer.posted] == ["up", "up"]
    assert "result" in answers[1].json()
    assert answers[0].status_code == answers[1].status_code == 200
    assert all(token not in answer.text for token in tokens.values() for answer in answers)
    if path == "/up/mcp":
        assert "gives no token for this server in exchange for yours" in answers[0].json()["error"]["message"]
