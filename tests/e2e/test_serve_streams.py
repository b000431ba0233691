"""Streams that clients keep open at `adjourn serve`: they end when their client is let in no longer."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

from support.gateway import GatewayWorkspace
from support.in_process_gateway import InProcessGateway
from support.ports import free_port
from support.proxy import wait_for
from support.token_issuer import RESOURCE, TokenIssuer

ACCEPTS = {"accept": "application/json, text/event-stream"}
STATELESS = "2026-07-28"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
BEGIN = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
LISTEN = {"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": {
    "notifications": {"toolsListChanged": True}, "_meta": META}}  # fmt: skip


class Stream:
    """A stream of server-sent events that somebody reads to its end."""

    def __init__(self, http: httpx.Client, method: str, url: str, **options: Any) -> None:
        self.is_open, self.is_whole = False, False
        self._told = (http, method, url, options)
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()
        wait_for(lambda: self.is_open)

    def _read(self) -> None:
        http, method, url, options = self._told
        with http.stream(method, url, **options) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            self.is_open = True
            for _ in answer.iter_bytes():
                pass
        self.is_open, self.is_whole = False, True  # else the connection broke


@contextmanager
def streams(work: GatewayWorkspace, headers: Mapping[str, str], page: str = "") -> Iterator[list[Stream]]:
    """One of each kind that a client may keep open, and with `page` that of a browser there."""
    with httpx.Client(timeout=httpx.Timeout(60, read=None)) as http:
        opened = []
        for path in ("/up/mcp", "/mcp"):
            url = work.url(path)
            session = http.post(url, json=BEGIN, headers={**ACCEPTS, **headers}).headers["mcp-session-id"]
            known = {"accept": "text/event-stream", "mcp-session-id": session, **headers}
            opened.append(Stream(http, "GET", url, headers=known))
            about = {"mcp-protocol-version": STATELESS, "mcp-method": "subscriptions/listen", **ACCEPTS, **headers}
            opened.append(Stream(http, "POST", url, json=LISTEN, headers=about))
        if page:
            key = headers["authorization"].partition(" ")[2]
            http.post(f"{page}/enter", data={"credential": key}, headers={"origin": page})
            opened.append(Stream(http, "GET", f"{page}/live"))
        yield opened


def revoke(work: GatewayWorkspace, name: str) -> None:
    keys = json.loads(work.adjourn("api-keys", "--json"))["keys"]
    (key,) = [one["id"] for one in keys if one["name"] == name]
    work.adjourn("api-keys", "revoke", key)


def test_the_streams_of_a_revoked_key_end(tmp_path: Path) -> None:
    """Those of clients and of the page end in order once the key is revoked, though nothing is sent; those of another key stay."""
    page = f"http://127.0.0.1:{free_port()}"
    settings = (
        f'[auth]\nkeys = true\n[page]\nlisten = "{page.removeprefix("http://")}"\n[servers.more]\ncommand = ["true"]\n'
    )
    with InProcessGateway(tmp_path, "allow *", settings=settings) as work, ExitStack() as stack:
        ann, bob = ({"authorization": f"Bearer {work.key(name, '--human')}"} for name in ("ann", "bob"))
        hers = stack.enter_context(streams(work, ann, page))
        his = stack.enter_context(streams(work, bob, page))
        revoke(work, "ann")
        wait_for(lambda: all(one.is_whole for one in hers), 60)
        assert [one.is_open for one in his] == [True] * 5
        revoke(work, "bob")
        wait_for(lambda: all(one.is_whole for one in his), 60)


def test_the_streams_of_a_token_end_with_it(tmp_path: Path) -> None:
    """A client whose access token expires loses its streams, not only its next request."""
    with TokenIssuer() as issuer:
        settings = f'[auth.oauth]\nissuer = "{issuer.url}"\nresource = "{RESOURCE}"\nleeway = 0\n[servers.more]\ncommand = ["true"]\n'
        with InProcessGateway(tmp_path, "allow *", settings=settings) as work:
            ends = time.time() + 8
            token = issuer.token({"exp": int(ends)})
            with streams(work, {"authorization": f"Bearer {token}"}) as opened:
                wait_for(lambda: all(one.is_whole for one in opened), 90)
                assert time.time() > ends - 1


def test_streams_end_when_the_way_in_is_another_one(tmp_path: Path) -> None:
    """A reload that has clients authenticate otherwise ends the streams of those who came by the way before."""
    keys, proxy = "[auth]\nkeys = true\n", '[auth.proxy]\ntrusted = ["127.0.0.1"]\nheader = "x-client"\n'
    more = '[servers.more]\ncommand = ["true"]\n'
    with InProcessGateway(tmp_path, "allow *", settings=keys + more) as work:
        file = work.root / "adjourn.toml"
        with streams(work, {"authorization": f"Bearer {work.key('ann')}"}) as opened:
            file.write_text(file.read_text(encoding="utf-8").replace(keys, proxy), encoding="utf-8")
            assert work.gateway is not None
            work.gateway.send_signal(signal.SIGHUP)
            wait_for(lambda: all(one.is_whole for one in opened), 60)
