"""What another gateway asks is read as the published definitions have it, and nothing that is shown in part counts as a message."""

from __future__ import annotations

import pytest

from adjourn.gateway.authorization import Denial, question_of, response_of
from support.data_plane import Answer, answer_of, check_request, messages

PUBLISHED = bytes.fromhex(
    "0a94010a100a0e0a0c120831302e302e302e31184d22590a02080512530a01311204504f53541a0f0a073a6d6574686f641204504f53541a"
    "190a0d617574686f72697a6174696f6e1208426561726572207422072f75702f6d6370481162117b226a736f6e727063223a22322e30227d"
    "520c0a06736572766572120275705a170a150a017812100a0e0a0161120911000000000000f03f"
)
"""A request that was written with the classes made of the published files, with members that are not read here."""


def test_a_question_is_read_as_published() -> None:
    """Method, path, headers, body and server have the published numbers; what is unknown here is skipped."""
    question = question_of(PUBLISHED)
    assert question.server == "up"
    assert (question.method, question.path) == ("POST", "/up/mcp")
    assert question.headers == [(b"authorization", b"Bearer t")]
    assert question.body == b'{"jsonrpc":"2.0"}'


def test_raw_headers_are_read() -> None:
    """Headers that come as bytes (encode_raw_headers) count as others do."""
    request = check_request(b"{}")
    request.attributes.request.http.ClearField("headers")
    request.attributes.request.http.header_map.headers.add(key="Authorization", raw_value=b"Bearer r")
    assert question_of(request.SerializeToString()).headers == [(b"authorization", b"Bearer r")]


@pytest.mark.parametrize(
    "request_",
    [
        check_request(None),
        check_request(b"{}", size=3),
        check_request(b"{}", size=1),
        check_request("{\ufffd}"),
        check_request(b"{}", headers={"x-envoy-auth-partial-body": "true"}),
    ],
)
def test_a_part_is_no_message(request_: object) -> None:
    """A body that is missing, cut, of another size, or changed on the way is none."""
    assert question_of(request_.SerializeToString()).body is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05\x01", PUBLISHED[:-3]])
def test_what_is_no_question_is_an_error(data: bytes) -> None:
    """Bytes that are no request are never one without a message."""
    with pytest.raises(ValueError, match="no CheckRequest"):
        question_of(data)


def test_an_answer_is_written_as_published() -> None:
    """A refusal has the code, and what the client gets; the rest passes."""
    read = messages()["CheckResponse"].FromString
    assert answer_of(read(response_of(None))) == Answer(True)
    refused = answer_of(read(response_of(Denial(429, b"{}", ((b"retry-after", b"1"),)))))
    assert refused == Answer(False, 429, "{}", {"retry-after": "1"}, 8)
