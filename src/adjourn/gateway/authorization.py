"""Decisions for another gateway in front of the servers: Envoy's external authorization over gRPC.

That gateway asks before it passes an HTTP request on, and shows the request with its body, an MCP message. Each message goes through a
relay as in `adjourn serve`; in place of the server stands a link on which what the relay sends may pass. Only what was sent on is
allowed: a refusal, a failure and whatever cannot be read are not.

How a call ends is not reported here: see `Session.sees_outcomes`. Must never: allow what the relay did not send on, or what the other
gateway has shown in part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import grpc
import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from adjourn.errors import UsageError
from adjourn.gateway.authenticator import Authenticator, Challenge
from adjourn.gateway.endpoint import MAX_EXCHANGES, Endpoint, Opening, Sender, opening_of
from adjourn.gateway.exchange import Exchange
from adjourn.gateway.limits import Throttle
from adjourn.gateway.links import BaseLink
from adjourn.gateway.replies import ReplyStream, as_line, problem
from adjourn.gateway.settings import SERVER_NAME
from adjourn.mcp import frames
from adjourn.relay.ports import StderrLog
from adjourn.relay.request import Request

# --- what of the messages is used here, by the names and numbers of envoy.service.auth.v3

_METHOD = "Check"
_SERVICE = "envoy.service.auth.v3.Authorization"
_FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "CheckRequest": {"attributes": (1, "AttributeContext")},
    "AttributeContext": {"request": (4, "Request"), "context_extensions": (10, "*Header")},
    "Request": {"http": (2, "HttpRequest")},
    "HttpRequest": {
        "method": (2, "string"), "headers": (3, "*Header"), "path": (4, "string"), "size": (9, "int64"),
        "body": (11, "string"), "raw_body": (12, "bytes"), "header_map": (13, "HeaderMap"),
    },
    "HeaderMap": {"headers": (1, "*Header")},
    "Header": {"key": (1, "string"), "value": (2, "string"), "raw_value": (3, "bytes")},
    "CheckResponse": {"status": (1, "Status"), "denied": (2, "Denied"), "ok": (3, "Ok")},
    "Status": {"code": (1, "int32"), "message": (2, "string")},
    "Denied": {"status": (1, "HttpStatus"), "headers": (2, "*HeaderOption"), "body": (3, "string")},
    "HttpStatus": {"code": (1, "int32")},
    "HeaderOption": {"header": (1, "Header")},
    "Ok": {},
}  # fmt: skip
"""An entry of a map is on the wire what a `Header` is; an enumeration is a number."""


def _messages() -> dict[str, Any]:
    """The classes of these messages."""
    file = descriptor_pb2.FileDescriptorProto(name="check.proto", package="check", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for member, (number, kind) in fields.items():
            field = message.field.add(name=member, number=number, label=3 if kind[0] == "*" else 1)
            kind = kind.lstrip("*")  # noqa: PLW2901
            if kind in _FIELDS:
                field.type, field.type_name = kinds.TYPE_MESSAGE, f".check.{kind}"
            else:
                field.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"check.{name}")) for name in _FIELDS}


_CLASSES = _messages()


# --- the answer

_CODES = {401: 16, 429: 8, 503: 14}
"""gRPC's codes for statuses of HTTP; any other refusal is 7, permission denied."""
_JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")


class Denial(NamedTuple):
    """What the client is answered in place of the server's answer."""

    status: int
    body: bytes
    headers: Sequence[tuple[bytes, bytes]] = (_JSON,)


def response_of(denial: Denial | None) -> bytes:
    """The `CheckResponse`; None: the request may pass."""
    response = _CLASSES["CheckResponse"]()
    if denial is None:
        response.status.code = 0
        response.ok.SetInParent()
    else:
        response.status.code = _CODES.get(denial.status, 7)
        response.denied.status.code = denial.status
        for name, value in denial.headers:
            header = response.denied.headers.add().header
            header.key, header.value = name.decode(), value.decode()
        response.denied.body = denial.body.decode()
    return bytes(response.SerializeToString())


def _refused(why: str, status: int = 403) -> Denial:
    return Denial(status, problem(why))


# --- the question

_PARTIAL = b"x-envoy-auth-partial-body"
_WITHOUT_MESSAGE = ("GET", "DELETE")
"""Opening a stream and ending a session."""
REPLACED = "\ufffd"
NOT_WHOLE = (
    "the gateway in front showed no whole message here: have it send the body, as bytes (pack_as_bytes or packAsBytes)"
)
NO_SERVER = "the gateway in front does not say which server this is for: set server in the context that it sends"


class CheckedRequest(NamedTuple):
    """An HTTP request that another gateway asks about. `body` is None where it was not shown whole."""

    server: str
    method: str
    path: str
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes | None


def question_of(data: bytes) -> CheckedRequest:
    """Read a `CheckRequest`. Raises `ValueError` for what is none."""
    try:
        attributes = _CLASSES["CheckRequest"].FromString(data).attributes
    except Exception as error:  # protobuf has an error of its own for each of its implementations
        raise ValueError(f"no CheckRequest: {error}") from error
    http = attributes.request.http
    named = [*http.headers, *http.header_map.headers]
    headers = [
        (pair.key.lower().encode(), pair.raw_value or pair.value.encode())
        for pair in named
        if not pair.key.startswith(":")
    ]
    body = http.raw_body or http.body.encode()
    is_partial = dict(headers).get(_PARTIAL, b"false") != b"false" or (http.size >= 0 and http.size != len(body))
    # what was no UTF-8 is not what the server would get
    is_shown = bool(body) and not is_partial and REPLACED not in http.body
    extensions = {pair.key: pair.value for pair in attributes.context_extensions}
    return CheckedRequest(extensions.get("server", ""), http.method, http.path, headers, body if is_shown else None)


# --- the decision


class PassingLink(BaseLink):
    """Stands where the server would be: what comes here may pass."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.size = 0

    def send(self, data: bytes, about: Sequence[Request] | None = None) -> None:
        """The requests `about` may pass, or the message that is being handled. Nobody will hear of their answers."""
        del data
        self._exchange.passed([request.id for request in about or ()])


class CheckEndpoint(Endpoint):
    """Decides on the messages for one server. Its exchanges are those of a client of the stateless revision: no session is known here."""

    async def check(self, body: bytes, sender: Sender) -> Denial | None:
        """Decide on a message; None: it may pass."""
        try:
            opening, line = opening_of(body), as_line(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _refused("the body is not one JSON-RPC message. Send one message a request, and no batch.", 400)
        is_request = opening.method is not None and frames.is_id(opening.id)
        who = self._who(opening, {}, sender)
        refusal = self._throttle.message(who) or (self._throttle.begin(who) if is_request else None)
        if refusal is not None:
            return Denial(refusal.status, problem(refusal.why), (_JSON, *refusal.headers))
        try:
            return await self._decide(opening, line, sender, is_request=is_request)
        finally:
            if is_request:
                self._throttle.end(who)

    async def _decide(self, opening: Opening, line: bytes, sender: Sender, *, is_request: bool) -> Denial | None:
        exchange = None if self._is_closed else self._lane(opening, sender)
        if not isinstance(exchange, Exchange):
            return _refused("too many clients are at work, or this gateway ends. Try again later.", 503)
        stream = ReplyStream()
        exchange.receive(line, stream, opening.id if is_request else None)
        if not is_request:
            return None if stream.is_passed else _refused("the policy does not let this message pass.")
        try:
            event = await stream.next()
        finally:
            exchange.leave(opening.id, stream)
        if stream.is_passed:
            return None
        return Denial(200, event.data) if event is not None else _refused("no decision could be made.", 503)


class Authorization:
    """The service at one address. `endpoint` makes what decides for a server; `authenticator` are the ways to tell who asks that are in
    force, None where nobody authenticates.
    """

    def __init__(
        self,
        listen: str,
        endpoint: Callable[[str], CheckEndpoint],
        authenticator: Callable[[], Authenticator | None],
        throttle: Throttle,
        report: StderrLog,
    ) -> None:
        self._listen = listen
        self._endpoint = endpoint
        self._authenticator = authenticator
        self._throttle = throttle
        self._report = report
        self._endpoints: dict[str, CheckEndpoint] = {}
        self._server: Any = None

    def endpoints(self) -> list[Endpoint]:
        """Those that there are."""
        return list(self._endpoints.values())

    async def start(self) -> None:
        """Listen. Raises `UsageError` where the address cannot be used."""
        limits = self._throttle.limits
        options = (("grpc.max_receive_message_length", limits.body_bytes), ("grpc.so_reuseport", 0))
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=limits.requests)
        handlers = {_METHOD: grpc.unary_unary_rpc_method_handler(self._check)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        try:
            self._server.add_insecure_port(self._listen)
        except RuntimeError as error:
            raise UsageError(f"cannot listen on {self._listen}: {error}", "choose another address or port") from error
        await self._server.start()

    async def stop(self, seconds: float) -> None:
        """Take no more questions; open ones may finish for so long."""
        if self._server is not None:
            await self._server.stop(seconds)

    async def _check(self, data: bytes, context: Any) -> bytes:
        try:
            question = question_of(data)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error)[:200])
        try:
            return response_of(await self.decide(question, _address_of(context.peer())))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._report.event("gateway.bug", f"{type(error).__name__}: {error}")
            return response_of(_refused("adjourn failed on this message.", 503))

    async def decide(self, question: CheckedRequest, address: str) -> Denial | None:
        """Decide on what a gateway at an address asks; None: it may pass."""
        if SERVER_NAME.fullmatch(question.server) is None:
            return _refused(NO_SERVER)
        sender = None
        if (authenticator := self._authenticator()) is not None:
            scope = {"path": question.path.partition("?")[0], "headers": question.headers, "client": (address, 0)}
            found = await authenticator.authenticate(scope)
            if isinstance(found, Challenge):
                return Denial(found.status, found.text.encode(), (_TEXT, *found.headers))
            sender = found
        if question.method in _WITHOUT_MESSAGE:
            return None
        if question.method != "POST":
            return _refused("use POST, GET or DELETE.", 405)
        if not _is_plain(dict(question.headers)):
            return _refused("send application/json in UTF-8, without a content encoding.", 415)
        if question.body is None:
            return _refused(NOT_WHOLE)
        endpoint = self._endpoints.get(question.server)
        if endpoint is None:
            if len(self._endpoints) >= MAX_EXCHANGES:
                return _refused("too many servers are named.", 503)
            endpoint = self._endpoints[question.server] = self._endpoint(question.server)
        return await endpoint.check(question.body, Sender(sender, ""))


def _is_plain(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the server reads the very text that is decided on: it gets these headers, too."""
    kind = headers.get(b"content-type", b"").lower().replace(b" ", b"").replace(b'"', b"")
    encoding = headers.get(b"content-encoding", b"identity").lower()
    return kind in (b"application/json", b"application/json;charset=utf-8") and encoding == b"identity"


def _address_of(peer: str) -> str:
    """The address of a peer as gRPC writes it, as in ipv4:10.0.0.7:41234 and ipv6:%5B::1%5D:41234."""
    kind, _, place = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return ""
    return place.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
