"""How a person permits a login: in a browser that comes back here, or anywhere with a code; and where a login may send requests."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import AuthorizationCodeResult
from msgspec import Meta

from adjourn.errors import RefusedError, UsageError
from adjourn.gateway.login.kept import is_loopback

# --- how the answer of a person's browser gets here

PATH = "/callback"
SECONDS = 600.0
"""How long a person may take."""
_MAX_HEAD = 16 * 1024
_PAGE = "<!doctype html><meta charset=utf-8><title>adjourn</title><p>{}</p>"


def has_browser() -> bool:
    """Whether a browser can show a page to the person here."""
    return sys.platform == "darwin" or any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))


class BrowserVisit:
    """Asks a person to visit a page, and waits for the answer. `say` shows a line to the person."""

    def __init__(self, say: Callable[[str], None], *, opens_browser: bool) -> None:
        self._say = say
        self._opens = opens_browser
        self._state = ""
        self._found: asyncio.Future[AuthorizationCodeResult] | None = None
        self._server: asyncio.Server | None = None
        self.port = 0

    async def listen(self, port: int) -> bool:
        """Listen for the browser on a port of loopback, 0 for any; False where that port is taken."""
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_MAX_HEAD)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise UsageError(
                f"cannot listen on port {port}: {error.strerror}", "choose another --port"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]
        return True

    @property
    def redirect_uri(self) -> str:
        """Where the authorization server sends the browser."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    async def ask(self, address: str) -> None:
        """Send the person to an address."""
        self._state = parse_qs(urlsplit(address).query).get("state", [""])[0]
        self._found = asyncio.get_running_loop().create_future()
        self._say(f"Open this address in a browser, and allow the access:\n\n  {address}\n")
        if self._opens:
            await asyncio.to_thread(webbrowser.open, address)

    async def answer(self) -> AuthorizationCodeResult:
        """What the browser brings. Raises `RefusedError` for a no, or none in time."""
        assert self._found is not None
        loop, takes_line = asyncio.get_running_loop(), _can_wait_for_stdin()
        if takes_line:
            self._say(
                "If the browser is on another machine, paste the address here that it ends at, and press Enter."
            )
            loop.add_reader(0, self._pasted)
        try:
            return await asyncio.wait_for(self._found, SECONDS)
        except TimeoutError as error:
            raise RefusedError(f"nobody answered within {SECONDS:.0f} seconds", "log in again") from error
        finally:
            if takes_line:
                loop.remove_reader(0)

    def _pasted(self) -> None:
        given = os.read(0, _MAX_HEAD).decode(errors="replace")
        if not given:
            asyncio.get_running_loop().remove_reader(0)
        elif given.strip() and not any(map(self._take, given.split())):
            self._say("This is not the answer to the question above. Copy the whole address.")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            method, _, rest = head.partition(b" ")
            target = rest.partition(b" ")[0].decode("latin-1")
            taken = method == b"GET" and urlsplit(target).path == PATH and self._take(target)
            page = _PAGE.format("You can close this page." if taken else "Nobody asked for this.").encode()
            status = b"200 OK" if taken else b"400 Bad Request"
            writer.write(
                b"HTTP/1.1 %b\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%b" % (status, len(page), page)
            )
            await writer.drain()
        writer.close()

    def _take(self, address: str) -> bool:
        """Whether an address has the answer to the question."""
        given = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        if self._found is None or self._found.done() or given.get("state") != self._state:
            return False
        if "error" in given:
            said = f"{given['error']}: {given.get('error_description', '')}".rstrip(": ")[:300]
            self._found.set_exception(
                RefusedError(
                    f"the authorization server answered {said}", "log in again, and allow the access"
                )
            )
        elif "code" not in given:
            return False
        else:
            self._found.set_result(
                AuthorizationCodeResult(code=given["code"], state=given["state"], iss=given.get("iss"))
            )
        return True

    def close(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            self._server.close()


def _can_wait_for_stdin() -> bool:
    try:
        return os.isatty(0) or stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:
        return False


# --- the device flow (RFC 8628)

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
MAX_SECONDS = 1800
_SLOWER = 5.0
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class _Device(msgspec.Struct):
    """RFC 8628, section 3.2."""

    device_code: str
    user_code: Annotated[str, Meta(max_length=100)]
    verification_uri: Annotated[str, Meta(max_length=2000)]
    expires_in: Annotated[float, Meta(gt=0)] = 600
    interval: Annotated[float, Meta(ge=0, le=300)] = 5


class _Refusal(msgspec.Struct):
    error: str = ""


class DeviceFlow:
    """One login by a code. `say` shows a line to the person."""

    def __init__(self, client: httpx2.AsyncClient, say: Callable[[str], None]) -> None:
        self._client = client
        self._say = say
        self._until = 0.0
        self._interval = 5.0

    async def begin(self, context: OAuthContext, endpoint: str, token_endpoint: str) -> httpx2.Request:
        """Show the code to the person; returns the request for the token. Raises `RefusedError`."""
        assert context.client_info is not None
        data = {"client_id": context.client_info.client_id}
        if context.client_metadata.scope:
            data["scope"] = context.client_metadata.scope
        data["resource"] = context.get_resource_url()
        data, headers = context.prepare_token_auth(data, dict(_FORM))
        answer = await self._client.post(endpoint, data=data, headers=headers)
        try:
            if answer.status_code != 200:
                raise msgspec.ValidationError(
                    f"HTTP status {answer.status_code}"
                )  # told like an answer that cannot be read
            device = msgspec.json.decode(answer.content, type=_Device)
        except msgspec.MsgspecError as error:
            raise RefusedError(
                f"the authorization server began no device login: {error}", "log in with a browser"
            ) from error
        check_address(device.verification_uri, context.server_url)
        self._interval = device.interval
        self._until = time.monotonic() + min(device.expires_in, MAX_SECONDS)
        self._say(f"Open {device.verification_uri} in a browser anywhere, and enter the code:\n\n  {device.user_code}\n")  # fmt: skip
        data = {
            "grant_type": GRANT,
            "device_code": device.device_code,
            "client_id": context.client_info.client_id,
            "resource": context.get_resource_url(),
        }
        data, headers = context.prepare_token_auth(data, dict(_FORM))
        await asyncio.sleep(self._interval)
        return httpx2.Request("POST", token_endpoint, data=data, headers=headers)

    async def wait(self, response: httpx2.Response) -> httpx2.Response:
        """Ask again while the person has not answered; returns the answer. Raises `RefusedError` where there is none in time."""
        request = response.request
        while (why := _refusal(response)) in ("authorization_pending", "slow_down"):
            if why == "slow_down":
                self._interval += _SLOWER
            if time.monotonic() > self._until:
                raise RefusedError("nobody entered the code in time", "log in again")
            await asyncio.sleep(self._interval)
            response = await self._client.send(
                httpx2.Request(request.method, request.url, headers=request.headers, content=request.content)
            )
        return response


def _refusal(response: httpx2.Response) -> str:
    if response.status_code != 400:
        return ""
    try:
        return msgspec.json.decode(response.content, type=_Refusal).error
    except msgspec.MsgspecError:
        return ""


# --- where a login may send requests, and what comes back of them at most

MAX_BYTES = 1024 * 1024
REQUEST_SECONDS = 30.0


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Requests for a login at the MCP server of `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        check_address(str(request.url), self._url)
        answer = await self._inner.handle_async_request(request)
        try:
            body = await _read(answer, request.url.host)
        finally:
            await answer.aclose()
        return httpx2.Response(answer.status_code, headers=answer.headers, content=body, request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _read(answer: httpx2.Response, host: str) -> bytes:
    """The body of an answer, within bounds. Raises `RefusedError`."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        return b""  # of a server that wants no login: it would not end
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise RefusedError(f"{host} compresses what was asked for uncompressed", "tell its operator")
    parts, size = [], 0
    async for part in answer.aiter_raw():
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise RefusedError(
                f"the answer of {host} is longer than {MAX_BYTES:,} bytes", "tell its operator"
            )
    return b"".join(parts)


def check_address(address: str, url: str) -> None:
    """Raise `RefusedError` for an address that a login at the server of `url` must not lead to."""
    parts = httpx2.URL(address)
    local = is_loopback(address)
    if parts.userinfo or parts.scheme not in ("http", "https"):
        raise RefusedError(f"the server leads to {shown(address)}, no plain https address", "do not log in")
    if local and not is_loopback(url):
        raise RefusedError(f"{url} leads to {shown(address)} on this machine", "do not log in")
    if parts.scheme == "http" and not local:
        raise RefusedError(
            f"{shown(address)} would get secrets without encryption", "ask its operator for https"
        )


def shown(address: str) -> str:
    """An address of a server without what may be secret in it."""
    return str(httpx2.URL(address).copy_with(userinfo=b"", query=None, fragment=None))[:200]


def client(url: str) -> httpx2.AsyncClient:
    """For all requests of a login at the server of `url`."""
    return httpx2.AsyncClient(
        transport=GuardedTransport(url), timeout=REQUEST_SECONDS, headers={"accept-encoding": "identity"}
    )
