"""The address on loopback to which the browser of a person comes."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from adjourn.errors import RefusedError
from adjourn.gateway.login_browser import BrowserVisit

QUESTION = "https://login.example/authorize?client_id=a&state=good"


async def visited(*paths: str, method: str = "GET") -> tuple[list[int], str]:
    """The statuses of visits, and the code that came, or why none did."""
    said: list[str] = []
    visit = BrowserVisit(said.append, opens_browser=False)
    assert await visit.listen(0)
    await visit.ask(QUESTION)
    assert QUESTION in said[0]
    waiting = asyncio.create_task(visit.answer())
    async with httpx.AsyncClient() as browser:
        origin = visit.redirect_uri.removesuffix("/callback")
        statuses = [(await browser.request(method, origin + path)).status_code for path in paths]
    await asyncio.sleep(0)
    visit.close()
    if not waiting.done():
        waiting.cancel()
        return statuses, ""
    try:
        return statuses, (await waiting).code
    except RefusedError as error:
        return statuses, error.message


def test_only_the_answer_to_the_question_is_taken() -> None:
    """Other states, paths and methods are turned away, and the login waits on; a second answer comes too late."""
    good = "/callback?code=c1&state=good"
    strange = ("/callback?code=x&state=bad", "/callback?code=x", "/other?code=x&state=good", "/callback?state=good")
    statuses, code = asyncio.run(visited(*strange, good, good))
    assert (statuses, code) == ([400, 400, 400, 400, 200, 400], "c1")
    assert asyncio.run(visited(good, method="POST")) == ([400], "")


def test_a_no_is_told() -> None:
    """What the authorization server says of it, within bounds."""
    answer = f"/callback?error=access_denied&error_description={'x' * 500}&state=good"
    _, why = asyncio.run(visited(answer))
    assert why.startswith("the authorization server answered access_denied: xxx")
    assert len(why) < 400


def test_a_port_that_is_taken_is_no_error() -> None:
    """Whoever listens decides on another one."""

    async def both() -> bool:
        first, second = (BrowserVisit(print, opens_browser=False) for _ in range(2))
        await first.listen(0)
        taken = not await second.listen(first.port)
        first.close()
        return taken

    assert asyncio.run(both())


@pytest.mark.parametrize("sent", [b"GET " + b"x" * 20_000, b"\xff\xfe\r\n\r\n", b""])
def test_noise_ends_nothing(sent: bytes) -> None:
    """A head that is too long, no HTTP, a closed connection: the next visit is served."""

    async def noisy() -> str:
        visit = BrowserVisit(lambda _text: None, opens_browser=False)
        await visit.listen(0)
        await visit.ask(QUESTION)
        _, writer = await asyncio.open_connection("127.0.0.1", visit.port)
        writer.write(sent)
        writer.close()
        async with httpx.AsyncClient() as browser:
            await browser.get(f"{visit.redirect_uri}?code=c2&state=good")
        visit.close()
        return (await visit.answer()).code

    assert asyncio.run(noisy()) == "c2"
