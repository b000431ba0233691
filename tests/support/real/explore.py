"""Asking a server everything there is to ask, in one fixed order, so that two such walks can be compared."""

from __future__ import annotations

from typing import Any

import jsonschema

from support.real.arguments import minimal
from support.real.lines import Exchange, LineClient, Object
from support.real.servers import Place, Server

META_TOOLS = (
    "aex.checkpoint", "aex.resume", "aex.finish", "aex.rollback", "aex.list_tasks", "aex.review_task", "adjourn.note", "adjourn.record", "adjourn.effect",
    "adjourn.ask",
)  # fmt: skip
MAX_READS = 30


def walk(client: LineClient, server: Server, place: Place) -> set[str]:
    """Greet, list, call every tool, read every resource, get every prompt; returns the tools that were called."""
    greeting = client.greet().result
    if server.asks_first and not client.modern:
        client.until_asked(server.asks_first)
    if not client.modern:
        client.request("ping")
    listed = pages(client, "tools/list", "tools")
    called = _call_tools(client, server, place, listed)
    offered: Object = greeting["capabilities"]
    _resources(client)
    _prompts(client, completes="completions" in offered)
    if "logging" in offered and not client.modern:
        client.request("logging/setLevel", {"level": "warning"})
    if "tasks" in offered:
        _tasks(client)
    if offered.get("resources", {}).get("subscribe") and not client.modern:
        for verb in ("subscribe", "unsubscribe"):
            client.request(f"resources/{verb}", {"uri": "demo://resource/static/document/features.md"})
    client.call("no-such-tool", {})
    client.request("no/such-method")
    return called


def pages(client: LineClient, method: str, member: str) -> list[Object]:
    """All pages of a list."""
    found: list[Object] = []
    cursor: Object = {}
    while True:
        exchange = client.request(method, cursor)
        if "result" not in exchange.body:
            return found
        found += exchange.result[member]
        if not exchange.result.get("nextCursor"):
            return found
        cursor = {"cursor": exchange.result["nextCursor"]}


def _call_tools(client: LineClient, server: Server, place: Place, listed: list[Object]) -> set[str]:
    schemas = {tool["name"]: tool["inputSchema"] for tool in listed if tool["name"] not in META_TOOLS}
    calls = server.calls(place)
    named = {call.tool for call in calls}
    assert named <= set(schemas), f"{server.name} has no {named - set(schemas)} any more"
    for number, (tool, arguments, fails) in enumerate(calls):
        jsonschema.validate(arguments, schemas[tool])
        answer = client.call(tool, arguments, _meta={"progressToken": number})
        failed = "error" in answer.body or answer.result.get("isError", False)
        assert failed == fails, f"{answer.label}: {answer.answer[:500]!r}"
    for tool in sorted(set(schemas) - named):
        arguments = minimal(schemas[tool])
        jsonschema.validate(arguments, schemas[tool])
        client.call(tool, arguments)
    for tool in server.wrong:
        client.call(tool, {"no_such_argument": [None]})
    return named | set(schemas)


def _resources(client: LineClient) -> None:
    addresses = [resource["uri"] for resource in pages(client, "resources/list", "resources")]
    for template in pages(client, "resources/templates/list", "resourceTemplates"):
        addresses.append(template["uriTemplate"].replace("{resourceId}", "7"))
        _complete(client, {"type": "ref/resource", "uri": template["uriTemplate"]}, "resourceId")
    for address in [*addresses[:MAX_READS], "demo://no/such/resource"]:
        client.request("resources/read", {"uri": address}, f"resources/read {address}")


def _prompts(client: LineClient, *, completes: bool) -> None:
    values = {"url": "http://127.0.0.1:9/", "resourceType": "Text", "resourceId": "1"}
    for prompt in pages(client, "prompts/list", "prompts"):
        name = prompt["name"]
        wanted = [argument["name"] for argument in prompt.get("arguments", [])]
        given = {argument: values.get(argument, "a") for argument in wanted}
        client.request("prompts/get", {"name": name, "arguments": given}, f"prompts/get {name}")
        for argument in wanted if completes else []:
            _complete(client, {"type": "ref/prompt", "name": name}, argument)
    client.request("prompts/get", {"name": "no-such-prompt"})


def _complete(client: LineClient, reference: Object, argument: str) -> None:
    client.request("completion/complete", {"ref": reference, "argument": {"name": argument, "value": ""}})


def _tasks(client: LineClient) -> None:
    """The experimental tasks of 2025-11-25: a call that is answered with a task, whose result is asked for later."""
    call: Any = {"name": "simulate-research-query", "arguments": {"topic": "cats", "ambiguous": True}}
    made = client.request("tools/call", call | {"task": {"ttl": 60_000}}, "task made").result["task"]
    task = {"taskId": made["taskId"]}
    client.request("tasks/result", task, "task result")
    client.request("tasks/get", task, "task state")
    client.request("tasks/list", {}, "task list")
    client.request("tasks/cancel", task, "task cancelled")


def tools_lists(exchanges: list[Exchange]) -> list[Exchange]:
    return [exchange for exchange in exchanges if exchange.method == "tools/list"]
