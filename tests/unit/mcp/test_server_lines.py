"""What a server sends is read in one way, by everyone, or dropped; and whoever waits for it can still be answered."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.mcp import frames
from adjourn.mcp.frames import FrameError, Message
from adjourn.mcp.lenient import Oversize
from adjourn.mcp.server_lines import elements, read
from adjourn.mcp.unreadable import HEAD_BYTES, ids_in
from support.cases import for_each

PLAIN = [
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n',
    b'{"jsonrpc": "2.0", "id": "a-1", "result": {"content": [{"id": 2, "result": 3}]}}\n',
    b'{"result":{"id":1,"jsonrpc":"2.0"},"jsonrpc":"2.0","id":7}\n',
    b'{"jsonrpc":"2.0","result":{"x":1.0}, "id":3}\n',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}\r\n',
    b' {"method" : "notifications/tools/list_changed", "jsonrpc":"2.0"} \r\n',
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1.0}}\n',
    b'{"jsonrpc":"2.0","id":4711,"method":"roots/list"}\n',
    b'{"jsonrpc":"2.0","id":1,"result":{"text":"a\\u00e9\\r\\n\xc3\xa9"}}\n',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}\n',
    b'{"jsonrpc":"2.0","id":1,"result":null}\n',
]


@for_each("line", PLAIN)
def test_what_can_be_read_in_one_way_passes_byte_for_byte(line: bytes) -> None:
    """A line of a server that all readers take alike is passed on unchanged."""
    assert read(line)[0] == line


ODD = {
    "two results": (b'{"jsonrpc":"2.0","id":1,"result":{"a":1},"result":{"b":1}}', {"b": 1}),
    "two results before the id": (b'{"result":{"a":1},"result":{"b":1},"jsonrpc":"2.0","id":1}', {"b": 1}),
    "two results, with blanks": (b'{"jsonrpc": "2.0", "id": 1, "result": {"a": 1}, "result": {"b": 1}}', {"b": 1}),
    "two ids": (b'{"jsonrpc":"2.0","id":9,"id":1,"result":{"b":1}}', {"b": 1}),
    "two ids, one behind": (b'{"jsonrpc":"2.0","id":9,"result":{"b":1},"id":1}', {"b": 1}),
    "two ids, one escaped": (b'{"jsonrpc":"2.0","id":9,"result":{"b":1},"i\\u0064":1}', {"b": 1}),
    "an escaped key": (b'{"jsonrpc":"2.0","id":1,"res\\u0075lt":{"b":1}}', {"b": 1}),
    "CR as a blank": (b'{"jsonrpc":"2.0","id":1,\r"result":\r{"b":1}\r}', {"b": 1}),
    "a message between two CR": (
        b'{"jsonrpc":"2.0","id":1,"result":{"b":\r{"id":2,"result":{}}\r}}',
        {"b": {"id": 2, "result": {}}},
    ),
    "an error that is none": (b'{"jsonrpc":"2.0","id":1,"result":{"b":1},"error":null}', {"b": 1}),
    "members that are not there": (b'{"id":1,"method":null,"params":null,"result":{"b":1},"error":null}', {"b": 1}),
    "another end of line": (
        '{"jsonrpc":"2.0","id":1,"result":{"b":"\u2028x\u2029y\x85"}}'.encode(),
        {"b": "\u2028x\u2029y\x85"},
    ),
}


@for_each("case", ODD)
def test_what_some_would_read_otherwise_is_handed_over_as_it_was_read(case: str) -> None:
    """An ambiguous line is delivered with each member once, as it was read."""
    sent, expected = ODD[case]
    line, reply = read(sent + b"\n")
    pairs = json.loads(line, object_pairs_hook=list)
    assert len({name for name, _ in pairs}) == len(pairs)
    body = json.loads(line)
    assert (body["id"], body["result"]) == (reply.id, expected) == (1, expected)
    assert len(line.decode().splitlines()) == 1
    assert line.endswith(b"\n")


UNREADABLE = {
    "two messages joined by a CR": (
        b'{"jsonrpc":"2.0","id":1,"result":{}}\r{"jsonrpc":"2.0","id":2,"result":{}}',
        [1, 2],
    ),
    "two messages": (b'{"id":1,"result":{}}{"id":"b","result":{}}', [1, "b"]),
    "nested too deeply": (b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 900_000 + b"]" * 900_000 + b"}", [1]),
    "brackets that do not match": (b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 5000 + b"}" * 5000 + b"}", [1]),
    "no value": (b'{"jsonrpc":"2.0","id":1,"result":{"a":undefined}}', [1]),
    "a trailing comma": (b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN,}}', [1]),
    "a mark before it": (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{}}', [1]),
    "cut off": (b'{"jsonrpc":"2.0","id":1,"result":{"a":"bc', [1]),
    "an answer and a request": (b'{"jsonrpc":"2.0","id":1,"result":{},"method":"x"}', []),
    "both a result and an error": (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1}}', [1]),
    "neither": (b'{"jsonrpc":"2.0","id":1}', [1]),
    "another case": (b'{"jsonrpc":"2.0","id":1,"ID":2,"result":{}}', [1]),
    "a method that is none": (b'{"jsonrpc":"2.0","id":1,"method":null}', [1]),
    "a request that cannot be read": (b'{"jsonrpc":"2.0","id":1,"method":"x","params":nan}', []),
    "half a character in a name": (b'{"jsonrpc":"2.0","id":1,"result":{},"meth\xffod":"sampling/createMessage"}', [1]),
    "no JSON": (b"Listening on 8080", []),
    "a batch with an odd one": (b'[{"id":1,"result":{}},{"id":2,"result":NaN}]', [1, 2]),
    "an inner id": (b'{"result":{"id":5},"id":1,"x":nan}', [1]),
    "an escaped name": (b'{"i\\u0064":"\\u0031","result":nan}', ["1"]),
    "unended texts": (b'{"id":1,"x":"' + b'\\"' * 50_000, [1]),
}


@for_each("case", UNREADABLE)
def test_what_cannot_be_read_in_one_way_is_no_message_and_its_id_is_found(case: str) -> None:
    """A line that readers could take differently is refused, and the ids that it answers are found."""
    line, ids = UNREADABLE[case]
    with pytest.raises(FrameError):
        read(line + b"\n")
    assert ids_in(line + b"\n") == ids


LENIENT = {
    "half a surrogate pair": b'"cut \\ud83d"',
    "the other half": b'{"\\udc00":"\\udc00\\ud800"}',
    "invalid UTF-8": b'"\xff\xc3"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "Latin-1": '"caf\u00e9"'.encode("latin-1"),
    "NaN": b"NaN",
    "infinities": b"[Infinity,-Infinity]",
    "a key twice": b'{"a":NaN,"a":2}',
    "levels": b"[" * 5000 + b"]" * 5000,
    "levels of objects": b'{"a":' * 5000 + b"NaN" + b"}" * 5000,
    "a number of many digits": b"[NaN," + b"9" * 6000 + b"]",
}


@for_each("kind", LENIENT)
@for_each(
    "shape",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"content":$,"isError":false}}\n',
        b'{"result" : {"id":9,"content":$} , "id" : 1}\r\n',
        b'{"jsonrpc":"2.0","error":{"code":1,"message":$},"id":1}\n',
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":$}}\n',
        b'{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":$}}\n',
    ],
)
def test_what_only_strict_readers_refuse_passes_byte_for_byte(kind: str, shape: bytes) -> None:
    """No rule looks into a result, an error or the params of a server: what stands there is the client's to read."""
    line = shape.replace(b"$", LENIENT[kind])
    passed, reply = read(line)
    assert passed.rstrip() == line.rstrip()
    assert reply.id in (1, "q", msgspec.UNSET)
    value = reply.result if isinstance(reply.result, msgspec.Raw) else reply.error
    assert not isinstance(value, msgspec.Raw) or bytes(value) in line


@pytest.mark.parametrize("control", ["\0", "\x01", "\t", "\r", "\x0b", "\x1e"])
def test_a_control_character_in_a_text_is_escaped(control: str) -> None:
    """Most clients do not read a raw control character, and some end a line at one."""
    line, reply = read(b'{"jsonrpc":"2.0",\r"id":1,"result":{"a":"x%sy"}}\n' % control.encode())
    assert json.loads(line)["result"] == {"a": f"x{control}y"}
    assert reply.id == 1
    assert len(line.splitlines()) == 1


PARTS = st.recursive(
    st.sampled_from([b"NaN", b"-Infinity", b"null", b"0", b"-1.5e3", b'"\\ud800"', b'"\\\\"', b'"id"', b'{"id":7,"result":1}'])
    | st.binary(max_size=12).map(lambda data: b'"' + data.translate(None, b'\n"\\' + bytes(range(32))) + b'"'),
    lambda inner: st.lists(inner, max_size=3).map(lambda all_: b"[" + b" , ".join(all_) + b"]")
    | st.lists(st.tuples(st.binary(max_size=4), inner), max_size=3).map(
        lambda all_: b"{" + b",".join(b'"%b":%b' % (key.translate(None, b'\n"\\' + bytes(range(32))), one) for key, one in all_) + b"}"
    ),
    max_leaves=12,
)  # fmt: skip


@given(PARTS, st.sampled_from(["result", "error"]), st.booleans(), st.sampled_from(["1", '"a"', "-3"]))
def test_any_bytes_of_an_answer_reach_the_client(part: bytes, member: str, first: bool, own: str) -> None:
    """Whatever bytes the texts of an answer have, it is read as the answer to its request, and keeps its value's bytes."""
    pairs = [f'"id":{own}'.encode(), f'"{member}":'.encode() + part]
    line = b'{"jsonrpc":"2.0",' + b",".join(pairs if first else pairs[::-1]) + b"}\n"
    passed, reply = read(line)
    assert reply.id == json.loads(own)
    assert bytes(getattr(reply, member)) == frames.one_line(part)
    assert passed == frames.one_line(line)


def test_of_a_line_that_is_too_long_the_id_is_found_at_either_end() -> None:
    """The id of a line over the limit is found in its first or its last bytes."""
    before = Oversize(b'{"jsonrpc":"2.0","id":1,"result":"' + b"x" * (2 * HEAD_BYTES) + b'"}\n')
    behind = Oversize(b'{"result":"' + b"x" * (2 * HEAD_BYTES) + b'","id": "a"}\n')
    for line, ids in ((before, [1]), (behind, ["a"])):
        with pytest.raises(FrameError, match="longer than the limit"):
            read(line)
        assert ids_in(line) == ids


def test_ids_of_requests_are_told_from_ids_of_answers() -> None:
    """Only the ids of answers in a refused line are found, not those of requests."""
    line = b'{"id":1,"method":"x","params":nan}\r{"id":2,"result":nan}\n'
    assert ids_in(line) == [2]


def test_a_batch_is_its_messages() -> None:
    """A batch of a server is split into its objects; other lines have no elements."""
    assert elements(b'[{"id":1,"result":{}},[1],{"id":2}]\n') == [b'{"id":1,"result":{}}\n', b'{"id":2}\n']
    assert elements(b'{"id":1}\n') == elements(b"[1,\n") == []


def test_a_client_s_line_is_one_line_for_every_server() -> None:
    """A server that ends lines at U+2028 would find a second message in a text."""
    hidden = '{"jsonrpc":"2.0","id":2,"method":"tools/call"}'
    sent = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": f"\u2028{hidden}\u2029\x85"}}, ensure_ascii=False
    )
    message = frames.read(sent.encode() + b"\n", Message)
    assert not isinstance(message, list)
    assert len(message.raw.decode().splitlines()) == 1
    assert json.loads(message.raw)["params"] == {"a": f"\u2028{hidden}\u2029\x85"}


@pytest.mark.parametrize("line", [b'{"result":{}}\n', b'{"jsonrpc":"2.0","error":{"code":1}}\n'])
def test_an_answer_to_nobody_is_read_as_one(line: bytes) -> None:
    """An answer without an id is read, so that it can be dropped as one that nobody asked for."""
    assert read(line)[1].id is msgspec.UNSET
