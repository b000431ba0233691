"""How the answer of a person's browser gets here: a page on loopback, or the address that the person pastes."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from adjourn.errors import RefusedError, UsageError

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
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None
        self._server: asyncio.Server | None = None
        self.port = 0

    async def listen(self, port: int) -> bool:
        """Listen for the browser on a port of loopback, 0 for any; False where that port is taken."""
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_MAX_HEAD)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise UsageError(f"cannot listen on port {port}: {error.strerror}", "choose another --port") from error
        self.port = self._server.sockets[0].getsockname()[1]
        return True

    @property
    def redirect_uri(self) -> str:
        """Where the authorization server sends the browser."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    async def ask(self, address: str) -> None:
        """Send the person to an address."""
        self._state = parse_qs(urlsplit(address).query).get("state", [""])[0]
        self._answer = asyncio.get_running_loop().create_future()
        self._say(f"Open this address in a browser, and allow the access:\n\n  {address}\n")
        if self._opens:
            await asyncio.to_thread(webbrowser.open, address)

    async def answer(self) -> AuthorizationCodeResult:
        """What the browser brings. Raises `RefusedError` for a no, or none in time."""
        assert self._answer is not None
        loop, takes_line = asyncio.get_running_loop(), _can_wait_for_stdin()
        if takes_line:
            self._say("If the browser is on another machine, paste the address here that it ends at, and press Enter.")
            loop.add_reader(0, self._pasted)
        try:
            return await asyncio.wait_for(self._answer, SECONDS)
        except TimeoutError as error:
            raise RefusedError(f"nobody answered within {SECONDS:.0f} seconds", "log in again") from error
        finally:
            if takes_line:
                loop.remove_reader(0)

    def _pasted(self) -> None:
        text = os.read(0, _MAX_HEAD).decode(errors="replace")
        if not text:
            asyncio.get_running_loop().remove_reader(0)
        elif text.strip() and not any(map(self._take, text.split())):
            self._say("This is not the answer to the question above. Copy the whole address.")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            method, _, remainder = head.partition(b" ")
            target = remainder.partition(b" ")[0].decode("latin-1")
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
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        if self._answer is None or self._answer.done() or query.get("state") != self._state:
            return False
        if "error" in query:
            reason = f"{query['error']}: {query.get('error_description', '')}".rstrip(": ")[:300]
            why = f"the authorization server answered {reason}"
            self._answer.set_exception(RefusedError(why, "log in again, and allow the access"))
        elif "code" not in query:
            return False
        else:
            result = AuthorizationCodeResult(code=query["code"], state=query["state"], iss=query.get("iss"))
            self._answer.set_result(result)
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
