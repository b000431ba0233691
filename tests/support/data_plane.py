"""A gateway that asks `adjourn serve` before it passes requests on: the client of envoy.service.auth.v3.

The messages are described here by the names and numbers of the published definitions, apart from those of the product.

Owns: `DataPlane`. Must never: share a description with the product.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

AUTH, CORE, HTTP, RPC = "envoy.service.auth.v3", "envoy.config.core.v3", "envoy.type.v3", "google.rpc"
_ATTRIBUTES = f".{AUTH}.AttributeContext"
_FIELDS: dict[tuple[str, str], tuple[tuple[str, int, str], ...]] = {
    (CORE, "HeaderValue"): (("key", 1, "string"), ("value", 2, "string"), ("raw_value", 3, "bytes")),
    (CORE, "HeaderValueOption"): (("header", 1, f".{CORE}.HeaderValue"), ("append_action", 3, "int32")),
    (CORE, "HeaderMap"): (("headers", 1, f"*.{CORE}.HeaderValue"),),
    (HTTP, "HttpStatus"): (("code", 1, "int32"),),
    (RPC, "Status"): (("code", 1, "int32"), ("message", 2, "string")),
    (AUTH, "Peer"): (("service", 2, "string"), ("principal", 4, "string"), ("certificate", 5, "string")),
    (AUTH, "HttpRequest"): (
        ("id", 1, "string"), ("method", 2, "string"), ("headers", 3, "map"), ("path", 4, "string"),
        ("host", 5, "string"), ("scheme", 6, "string"), ("query", 7, "string"), ("fragment", 8, "string"),
        ("size", 9, "int64"), ("protocol", 10, "string"), ("body", 11, "string"), ("raw_body", 12, "bytes"),
        ("header_map", 13, f".{CORE}.HeaderMap"),
    ),
    (AUTH, "Request"): (("http", 2, f".{AUTH}.HttpRequest"),),
    (AUTH, "AttributeContext"): (
        ("source", 1, f".{AUTH}.Peer"), ("destination", 2, f".{AUTH}.Peer"), ("request", 4, f".{AUTH}.Request"),
        ("context_extensions", 10, "map"),
    ),
    (AUTH, "CheckRequest"): (("attributes", 1, _ATTRIBUTES),),
    (AUTH, "DeniedHttpResponse"): (
        ("status", 1, f".{HTTP}.HttpStatus"), ("headers", 2, f"*.{CORE}.HeaderValueOption"), ("body", 3, "string"),
    ),
    (AUTH, "OkHttpResponse"): (("headers", 2, f"*.{CORE}.HeaderValueOption"), ("headers_to_remove", 5, "*string")),
    (AUTH, "CheckResponse"): (
        ("status", 1, f".{RPC}.Status"), ("denied_response", 2, f".{AUTH}.DeniedHttpResponse"),
        ("ok_response", 3, f".{AUTH}.OkHttpResponse"), ("error_response", 5, f".{AUTH}.DeniedHttpResponse"),
    ),
}  # fmt: skip


@cache
def messages() -> dict[str, Any]:
    """The classes of the messages, by their names."""
    kinds = descriptor_pb2.FieldDescriptorProto
    pool = descriptor_pool.DescriptorPool()
    for package in (CORE, HTTP, RPC, AUTH):
        needs = [] if package != AUTH else [f"{other}.proto" for other in (CORE, HTTP, RPC)]
        file = descriptor_pb2.FileDescriptorProto(
            name=f"{package}.proto", package=package, syntax="proto3", dependency=needs
        )
        for (of, name), fields in _FIELDS.items():
            if of != package:
                continue
            message = file.message_type.add(name=name)
            for member, number, written in fields:
                is_many = written.startswith("*") or written == "map"
                field = message.field.add(name=member, number=number, label=3 if is_many else 1)
                kind = written.lstrip("*")
                if written == "map":
                    entry = "".join(word.capitalize() for word in member.split("_")) + "Entry"
                    nested = message.nested_type.add(name=entry)
                    nested.options.map_entry = True
                    nested.field.add(name="key", number=1, label=1, type=kinds.TYPE_STRING)
                    nested.field.add(name="value", number=2, label=1, type=kinds.TYPE_STRING)
                    field.type, field.type_name = kinds.TYPE_MESSAGE, f".{package}.{name}.{entry}"
                elif kind.startswith("."):
                    field.type, field.type_name = kinds.TYPE_MESSAGE, kind
                else:
                    field.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
        pool.Add(file)
    found = (pool.FindMessageTypeByName(f"{package}.{name}") for package, name in _FIELDS)
    return {kind.name: message_factory.GetMessageClass(kind) for kind in found}


class Answer(NamedTuple):
    """What the gateway is answered: whether the request may pass, and else what its client gets."""

    passes: bool
    status: int = 0
    body: str = ""
    headers: Mapping[str, str] = {}
    code: int = 0

    @property
    def text(self) -> str:
        """What an agent reads of the result of a tool that the body has, or of an error."""
        said = json.loads(self.body)
        return str(said["result"]["content"][0]["text"] if "result" in said else said["error"]["message"])


def check_request(body: bytes | str | None, *, server: str = "up", token: str = "", **http: Any) -> Any:
    """A `CheckRequest` about a message to a server. `http` are further members of the request."""
    request = messages()["CheckRequest"]()
    shown = request.attributes.request.http
    shown.method, shown.path, shown.host, shown.scheme, shown.protocol = (
        "POST",
        f"/{server}/mcp",
        "x",
        "http",
        "HTTP/1.1",
    )
    if server:
        request.attributes.context_extensions["server"] = server
    shown.headers[":method"] = "POST"
    shown.headers["content-type"] = "application/json"
    if token:
        shown.headers["authorization"] = f"Bearer {token}"
    for name, value in http.pop("headers", {}).items():
        shown.headers[name] = value
    if isinstance(body, bytes):
        shown.raw_body = body
    elif body is not None:
        shown.body = body
    shown.size = len(body.encode() if isinstance(body, str) else body or b"")
    for name, value in http.items():
        setattr(shown, name, value)
    return request


def answer_of(response: Any) -> Answer:
    """A `CheckResponse`."""
    if response.status.code == 0:
        return Answer(True)
    denied = response.denied_response
    headers = {option.header.key: option.header.value for option in denied.headers}
    return Answer(False, denied.status.code, denied.body, headers, response.status.code)


class DataPlane:
    """Asks at an address."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._check = self._channel.unary_unary(
            f"/{AUTH}.Authorization/Check",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=messages()["CheckResponse"].FromString,
        )

    def ask(self, request: Any) -> Answer:
        """Have a `CheckRequest` decided on."""
        return answer_of(self._check(request, timeout=20, wait_for_ready=True))

    def call(self, tool: str, *, token: str = "", server: str = "up", **arguments: Any) -> Answer:
        """Ask about the call of a tool by a client of the handshake revisions."""
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return self.ask(check_request(json.dumps(message).encode(), token=token, server=server))

    def close(self) -> None:
        """End the connection."""
        self._channel.close()
