"""The page for people at the gateway: each signs in as itself, sees what is its own, and is on record for what it answers."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import Browser, expect

from support.browser import PICTURES, Window, check
from support.gateway import text_of
from support.in_process_gateway import InProcessGateway
from support.page import ServedPage
from support.ports import free_port
from support.proxy import wait_for

INIT = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}}  # fmt: skip
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "write", "arguments": {}}}


class Pages:
    """A gateway with a page, and people who sign in there."""

    def __init__(self, path: Path, *rules: str) -> None:
        self.origin = f"http://127.0.0.1:{(port := free_port())}"
        self.work = InProcessGateway(
            path, "allow up.*", "confirm before up.write", "for user:uma", "  deny up.pause", *rules,
            settings=f'[auth]\nkeys = true\nshared = ["ops"]\n[page]\nlisten = "127.0.0.1:{port}"\n',
        )  # fmt: skip

    def enter(self, key: str) -> httpx.Client:
        """A browser in which somebody has tried to sign in."""
        browser = httpx.Client(base_url=self.origin, timeout=20, follow_redirects=False)
        browser.post("/enter", data={"credential": key}, headers={"origin": self.origin})
        return browser

    def ask(self, key: str, text: str) -> None:
        """Have an agent ask for a call that needs a person, and give up once the question is there."""
        with ThreadPoolExecutor(1) as threads:  # a browser of the test has its loop in this one
            threads.submit(asyncio.run, asyncio.wait_for(self._ask(key, text), 60)).result()

    async def _ask(self, key: str, text: str) -> None:
        accepts = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {key}"}
        before = self.waiting()
        async with httpx.AsyncClient(base_url=self.work.url(""), timeout=20, headers=accepts) as agent:
            session = (await agent.post("/up/mcp", json=INIT)).headers["mcp-session-id"]
            call = {**CALL, "params": {"name": "write", "arguments": {"text": text}}}
            known = {"mcp-session-id": session, "mcp-protocol-version": "2025-06-18"}
            await agent.post("/up/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=known)
            asked = asyncio.create_task(agent.post("/up/mcp", json=call, headers=known, timeout=60))
            await asyncio.to_thread(wait_for, lambda: self.waiting() != before)
            await asyncio.sleep(0.2)
            assert not asked.done()
            asked.cancel()

    def waiting(self) -> int:
        """How many questions wait for a person."""
        return len(json.loads(self.work.adjourn("inbox", "--json"))["waiting"])

    def tasks(self) -> list[str]:
        """The tasks of all principals."""
        return [one["task"] for one in json.loads(self.work.adjourn("tasks", "--json"))["tasks"]]

    def log(self, task: str) -> list[dict[str, Any]]:
        """The history of a task."""
        return [json.loads(line) for line in self.work.adjourn("log", task, "--json").splitlines()]

    def form(self, browser: httpx.Client) -> dict[str, str]:
        """The hidden fields of the only item."""
        found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', browser.get("/").text)
        return {name: html.unescape(value) for name, value in found}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    found = Pages(tmp_path_factory.mktemp("page"))
    with found.work:
        yield found


def test_a_person_answers_its_own_calls_as_itself(pages: Pages) -> None:
    """A person sees what waits in its own tasks only, can answer nothing else, and is on record by name for what it answers."""
    ann, bob = pages.work.key("ann", "--human"), pages.work.key("bob", "--human")
    pages.ask(ann, "of-ann")
    pages.ask(bob, "of-bob")
    hers, his = pages.enter(ann), pages.enter(bob)
    wait_for(lambda: "of-ann" in hers.get("/").text)
    form = pages.form(hers)
    assert "of-ann" not in his.get("/").text
    assert "of-ann" not in his.get("/", headers={"HX-Request": "true"}).text
    answer = {**form, "action": "approve"}
    sent = {"origin": pages.origin}
    stolen = his.post("/answer", data=answer, headers=sent)
    assert stolen.status_code == 403  # her form is not his
    guessed = his.post("/answer", data={**answer, "csrf": pages.form(his)["csrf"]}, headers=sent)
    said = his.get(guessed.headers["location"]).text
    assert "Not recorded" in said
    assert "of-ann" not in said
    assert hers.post("/answer", data=answer, headers=sent).status_code == 303
    approved = []
    for task in pages.tasks():
        approved += [event["by"] for event in pages.log(task) if event["event"] == "confirm.approved"]
    assert approved == [{"id": "ann", "type": "human"}]


def test_people_of_a_shared_group_answer_for_its_services(pages: Pages) -> None:
    """A person of the group sees what a service of it waits for, and approves it by name; a person of another group does not."""
    pages.ask(pages.work.key("bot", "--group", "ops"), "of-the-bot")
    gil = pages.enter(pages.work.key("gil", "--human", "--group", "ops"))
    fay = pages.enter(pages.work.key("fay", "--human", "--group", "dev"))
    wait_for(lambda: "of-the-bot" in gil.get("/").text)
    assert "of-the-bot" not in fay.get("/").text
    answer = {**pages.form(gil), "action": "approve"}
    assert gil.post("/answer", data=answer, headers={"origin": pages.origin}).status_code == 303
    wait_for(lambda: "of-the-bot" not in gil.get("/").text)
    (task,) = [one for one in pages.tasks() if "of-the-bot" in json.dumps(pages.log(one))]
    approved = [event["by"] for event in pages.log(task) if event["event"] == "confirm.approved"]
    assert approved == [{"id": "gil", "type": "human"}]


def test_only_the_named_group_approves_for_another(tmp_path: Path) -> None:
    """A member of the group that asks cannot approve, on the page or by a command; a lead who sees it can. Others are not asked about it."""
    pages = Pages(tmp_path, "for group:ops", "  confirm before up.write by group:leads")
    with pages.work:
        pages.ask(pages.work.key("bot", "--group", "ops"), "of-the-bot")
        gil = pages.enter(pages.work.key("gil", "--human", "--group", "ops"))
        wait_for(lambda: "of-the-bot" in gil.get("/").text)
        assert "group:leads can approve it" in gil.get("/").text
        form = pages.form(gil)
        sent = {"origin": pages.origin}
        for browser in (gil, pages.enter(pages.work.key("leads", "--human", "--group", "ops"))):
            csrf = {"csrf": pages.form(browser)["csrf"]}
            said = browser.post("/answer", data={**form, **csrf, "action": "approve"}, headers=sent)
            assert "is for group:leads to answer" in browser.get(said.headers["location"]).text
        with pytest.raises(AssertionError, match="is for group:leads to answer"):
            pages.work.adjourn("approve", form["item"])
        assert pages.waiting() == 1
        lea = pages.enter(pages.work.key("lea", "--human", "--group", "ops", "--group", "leads"))
        answer = {**form, "csrf": pages.form(lea)["csrf"], "action": "approve"}
        assert lea.post("/answer", data=answer, headers=sent).status_code == 303
        wait_for(lambda: pages.waiting() == 0)
        (task,) = pages.tasks()
        approved = [event["by"] for event in pages.log(task) if event["event"] == "confirm.approved"]
        assert approved == [{"id": "lea", "type": "human"}]
        pages.ask(pages.work.key("solo", "--group", "dev"), "of-dev")
        (other,) = [one for one in pages.tasks() if one != task]
        asked = [event["data"] for event in pages.log(other) if event["event"] == "confirm.required"]
        assert [one.get("who", "") for one in asked] == [""]


@pytest.mark.parametrize("path", ["/", "/live", "/answer", "/policy", "/tasks", "/nothing", "/enter?credential=x"])
def test_nobody_else_gets_in(pages: Pages, path: str) -> None:
    """Without a credential, with a wrong one, or with that of a service there is the form to sign in, and no cookie."""
    for key in ("", "adj_aaaaaaaaaa_nokey", "Zoë\r\nx: y", pages.work.key("robot")):
        browser = pages.enter(key)
        answered = browser.get(path)
        assert answered.status_code == 401
        assert "csrf" not in answered.text
        assert not browser.cookies


def test_a_person_reads_its_own_tasks_only(pages: Pages) -> None:
    """The list, the page of a task and a part of its name have what is the person's own; of another's they say what they say of none."""
    ida, ola = pages.work.key("ida", "--human"), pages.work.key("ola", "--human")
    pages.ask(ida, "of-ida")
    (task,) = [one for one in pages.tasks() if "of-ida" in json.dumps(pages.log(one))]
    hers, his = pages.enter(ida), pages.enter(ola)
    assert task in hers.get("/tasks").text
    page = hers.get("/task", params={"id": task})
    assert page.status_code == 200
    assert "of-ida" in page.text
    assert "/checkpoint" not in page.text
    for path in ("/tasks", "/record", "/"):
        assert task not in his.get(path).text
    for path in ("/task", "/record", "/cognition"):
        said = []
        for name in (task, task[:-1], "nobodys-task"):
            refused = his.get(path, params={"id": name})
            assert refused.status_code == 404
            said.append(html.unescape(refused.text).replace(f"'{name}'", "it"))
        assert said[0] == said[1] == said[2]


def test_the_handover_is_what_the_persons_next_session_receives(pages: Pages) -> None:
    """The page of a task with a checkpoint has what the gateway answers when that person's agent resumes it, with the person's rules."""
    key = pages.work.key("uma", "--human")

    def ask(tool: str, **arguments: str) -> str:
        async def call(client: Any) -> str:
            return text_of(await client.call_tool(tool, arguments))

        return pages.work.run(call, token=key)

    assert "half" in ask("aex.checkpoint", name="half")
    browser = pages.enter(key)
    (task,) = re.findall(r'class="task" href="/task\?id=([^"]+)"', browser.get("/tasks").text)
    (shown,) = re.findall(r'tabindex="0">(\{.*?)</pre>', browser.get("/task", params={"id": task}).text)
    previewed, received = json.loads(html.unescape(shown)), json.loads(ask("aex.resume", name="half"))
    for one in (previewed, received):  # who holds the task, and where older events are, has changed meanwhile
        del one["state"], one["more"]
    assert previewed == received
    assert "refused: up.pause for user:uma" in received["rules"]


def test_a_link_from_elsewhere_leads_to_the_page(pages: Pages) -> None:
    """A link of a notification says nothing by itself: it leads to what waits on the page, where one signs in."""
    link = f"{pages.origin}/to/item-{'0' * 16}-approve"
    answer = httpx.get(link, headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 200
    assert f"/#item-{'0' * 16}-approve" in answer.text
    assert "csrf" not in answer.text
    assert httpx.get(f"{pages.origin}/to/elsewhere").status_code == 404


@pytest.mark.parametrize("path", ["/policy", "/always", "/checkpoint"])
def test_pages_of_the_workspace_are_not_served(pages: Pages, path: str) -> None:
    """Who signs in reads no policy and no file of the workspace."""
    browser = pages.enter(pages.work.key("cleo", "--human"))
    assert browser.get("/").status_code == 200
    assert browser.get(path).status_code == 404


def test_the_session_is_the_browsers_own(pages: Pages) -> None:
    """The cookie is for no script and no other site; other hosts, sites and origins are refused; signing out ends it."""
    key = pages.work.key("dan", "--human")
    sent = httpx.post(f"{pages.origin}/enter", data={"credential": key}, headers={"origin": pages.origin})
    cookie = sent.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert key not in cookie
    elsewhere = httpx.post(f"{pages.origin}/enter", data={"credential": key}, headers={"origin": "http://evil.example"})
    assert elsewhere.status_code == 403
    browser = pages.enter(key)
    assert browser.get("/", headers={"host": "evil.example"}).status_code == 421
    assert browser.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert "default-src 'none'" in browser.get("/").headers["content-security-policy"]
    kept = dict(browser.cookies)
    browser.post("/leave", headers={"origin": pages.origin, "content-type": "application/x-www-form-urlencoded"})
    assert httpx.get(pages.origin, cookies=kept).status_code == 401


def test_a_revoked_key_ends_the_session(pages: Pages) -> None:
    """When the key that opened a session is revoked, the session ends."""
    browser = pages.enter(pages.work.key("eve", "--human"))
    assert browser.get("/").status_code == 200
    keys = json.loads(pages.work.adjourn("api-keys", "--json"))["keys"]
    pages.work.adjourn("api-keys", "revoke", next(one["id"] for one in keys if one["name"] == "eve"))
    wait_for(lambda: browser.get("/").status_code == 401)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_a_browser_signs_in_and_answers(
    browser: Browser, pages: Pages, scheme: Literal["light", "dark"], width: int
) -> None:
    """In a real browser a person signs in, reads its tasks, and answers; nothing sticks out, axe finds nothing. Leaves pictures."""
    name = f"zoe-{scheme}"
    key = pages.work.key(name, "--human")
    pages.ask(key, f"of-{name}")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    window = Window(context, ServedPage(f"{pages.origin}/"))
    page = window.page

    def look(title: str) -> None:
        check(page, width)
        page.screenshot(path=PICTURES / f"team-{title}-{scheme}-{width}.png", full_page=True)

    look("sign-in")
    assert ["401" in error for error in window.errors] == [True]  # a browser says so of every such answer
    page.get_by_label("API key or access token").fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("article").get_by_text(f"of-{name}")).to_be_visible()
    look("inbox")
    page.get_by_role("link", name="Tasks").click()
    page.locator("a.task").click()
    expect(page.get_by_text("What happened")).to_be_visible()
    look("task")
    page.get_by_role("link", name="Records").click()
    expect(page.get_by_role("heading").first).to_be_visible()
    look("records")
    page.get_by_role("link", name="Inbox").click()
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_text("Denied").first).to_be_visible()
    assert len(window.errors) == 1
    context.close()
