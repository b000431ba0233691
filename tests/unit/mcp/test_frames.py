"""Frames: a line is decoded only if no peer could read it otherwise; answers and edits keep what they do not change."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.log.canonical_json import MAX_DEPTH
from adjourn.mcp import frames
from adjourn.mcp.frames import FrameError, Message, without_params
from adjourn.mcp.lenient import Oversize
from support.cases import for_each

KEYS = st.sampled_from(["id", "method", "params", "name", "a", "b", "c", ":", '"', "a:", "é", ""])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def decode(text: str) -> Message:
    message = frames.read(text.encode() + b"\n", Message)
    assert isinstance(message, Message)
    return message


def refusal(line: str | bytes) -> FrameError:
    with pytest.raises(FrameError) as caught:
        frames.read(line.encode() + b"\n" if isinstance(line, str) else line, Message)
    return caught.value


def test_a_request_a_notification_and_an_answer_are_told_apart() -> None:
    """A message with an id and a method is a request, one without an id is a notification, one without a method is an answer."""
    request = decode('{"jsonrpc":"2.0","id":7,"method":"ping","params":{"_meta":{"x":1}}}')
    assert (request.id, request.method, request.is_request, request.meta) == (7, "ping", True, {"x": 1})
    notification = decode('{"jsonrpc":"2.0","method":"notifications/x"}')
    assert (notification.id, notification.is_request, notification.params) == (None, False, {})
    answer = decode('{"jsonrpc":"2.0","id":"a","result":{}}')
    assert (answer.id, answer.method, answer.is_request) == ("a", "", False)


def test_the_era_is_told_by_the_message() -> None:
    """A message is of the modern protocol if its _meta names the version."""
    assert not decode('{"id":1,"method":"ping"}').modern
    modern = {"id": 1, "method": "ping", "params": {"_meta": {frames.META_VERSION: "2026-07-28"}}}
    assert decode(json.dumps(modern)).modern
    assert not decode('{"id":1,"method":"ping","params":{"_meta":[]}}').modern


@given(JSON, st.sampled_from([(",", ":"), (", ", " : "), (" ,", ":\t")]), st.booleans())
def test_strict_json_without_double_keys_is_taken(value: Any, separators: tuple[str, str], ascii_only: bool) -> None:
    """Strict JSON with unique keys is decoded, in any layout."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": {"v": value}}}
    line = json.dumps(body, separators=separators, ensure_ascii=ascii_only)
    try:
        message = decode(line)
    except UnicodeEncodeError:
        return  # hypothesis made a surrogate, which is no text
    assert message.params["name"] == "x"
    assert message.raw == frames.one_line(line.encode() + b"\n")


@given(st.text(min_size=1, max_size=8), JSON, JSON, st.integers(0, 30), st.booleans())
def test_a_key_that_stands_twice_at_any_depth_is_refused(
    key: str, one: Any, two: Any, depth: int, escaped: bool
) -> None:
    """A duplicate key is refused at any depth, also if it is written with escapes."""
    name = json.dumps(key)
    other = '"' + "".join(f"\\u{ord(char):04x}" for char in key) + '"' if escaped and key.isascii() else name
    inner = f"{{{name}:{json.dumps(one)},{other} :{json.dumps(two)}}}"
    nested = '{"n":[' * depth + inner + "]}" * depth
    error = refusal(f'{{"id":5,"method":"tools/call","params":{{"name":"x","arguments":{nested}}}}}')
    assert error.code in (frames.INVALID_REQUEST, frames.PARSE_ERROR)


ALIKE = [
    ("amount", "Amount"),
    ("amount", "AMOUNT"),
    ("fileName", "filename"),
    ("is", "i\u017f"),
    ("k", "\u212a"),
    ("stra\u00dfe", "STRASSE"),
    ("\u00e9", "e\u0301"),
    ("amount", "\uff41\uff4d\uff4f\uff55\uff4e\uff54"),
    ("amount", "am\u200bount"),
    ("amount", "amount\ufe0f"),
    ("amount", "amount\0x"),
    ("amount", " amount"),
    ("amount", "amount\t"),
    ("", "\u200b"),
]


@for_each(("one", "other"), ALIKE)
@for_each(
    "shape",
    [
        "$",
        '{"name":"x","_meta":$}',
        '{"name":"x","_meta":$,"arguments":{}}',
        '{"ref":$,"argument":{}}',
        '{"clientInfo":$}',
        '{"name":"x","inputResponses":$,"requestState":"s"}',
        '{"name":"x","inputResponses":{"q":$},"requestState":"s"}',
        '{"name":"x","inputResponses":{"q":{"content":$}},"requestState":"s"}',
    ],
)
def test_keys_that_some_reader_takes_for_one_are_refused(one: str, other: str, shape: str) -> None:
    """Of two keys that differ in case, in how Unicode is composed, or in what nobody sees, the proxy and a server might each take another one."""
    both = f"{{{json.dumps(one)}:1,{json.dumps(other)}:1000}}"
    error = refusal(f'{{"id":5,"method":"tools/call","params":{shape.replace("$", both)}}}')
    assert (error.code, error.id) == (frames.INVALID_REQUEST, 5)
    assert "the same to some readers" in error.reason


@for_each(("one", "other"), ALIKE)
@for_each("shape", ["$", '{"a":[1,{"b":[$]}]}', '{"env":$}', '{"document":{"deep":$}}'])
def test_keys_of_data_may_be_alike(one: str, other: str, shape: str) -> None:
    """In arguments the rules say which keys they read: `HTTP_PROXY` stands beside `http_proxy` in an environment."""
    both = f"{{{json.dumps(one)}:1,{json.dumps(other)}:1000}}"
    arguments = shape.replace("$", both)
    message = decode(f'{{"id":5,"method":"tools/call","params":{{"name":"x","arguments":{arguments}}}}}')
    assert message.may_clash
    assert message.params["arguments"] == json.loads(arguments)
    answer = decode(f'{{"id":5,"result":{{"content":{{"data":{{"more":{both}}}}}}}}}')
    assert answer.may_clash


@for_each(("one", "other"), ALIKE)
@for_each("shape", ["$", '{"content":$}'])
def test_keys_of_an_answer_that_may_be_one_to_the_proxy_are_refused(one: str, other: str, shape: str) -> None:
    """A client's answer to a question of the proxy is read, too."""
    both = f"{{{json.dumps(one)}:1,{json.dumps(other)}:1000}}"
    assert "the same to some readers" in refusal(f'{{"id":5,"result":{shape.replace("$", both)}}}').reason


@for_each(("one", "other"), ALIKE)
def test_keys_of_different_objects_may_be_alike(one: str, other: str) -> None:
    """Either key may stand alone, beside the other one's object, or inside it."""
    arguments = {"list": [{one: 1}, {other: 2}], "deep": {one: {other: 1}}}
    line = {"id": 5, "method": "tools/call", "params": {"name": "x", "arguments": arguments}}
    assert decode(json.dumps(line)).params["arguments"] == arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {"oldText": "a", "newText": "b", "old_text": "c", "path": "x"},
        {"\u0915\u0941": 1, "\u0915": 2, "\u0915\u0940": 3},
        {"\u0131": 1, "i": 2, "e": 1, "\u00e9": 2},
        {str(number): number for number in range(1000)},
    ],
)
def test_other_keys_stand_side_by_side(arguments: dict[str, int]) -> None:
    """Keys that no reader takes for one another are no matter, in any script."""
    line = {"id": 5, "method": "tools/call", "params": {"name": "x", "arguments": arguments}}
    assert decode(json.dumps(line)).params["arguments"] == arguments


@pytest.mark.parametrize(
    "key", ["\uff4e\uff41\uff4d\uff45", "na\u200bme", "name ", "arguments\0", "requeststate", "InputResponses"]
)
def test_a_watched_key_that_could_be_read_so_is_refused(key: str) -> None:
    """A lone key that a lenient reader takes for a watched one is refused."""
    reason = refusal(f'{{"id":1,"method":"tools/call","params":{{{json.dumps(key)}:"x"}}}}').reason
    assert "could be read as" in reason


@for_each(
    "value",
    [
        "1e400",
        "-1e400",
        "+1",
        "01",
        "1.",
        ".5",
        "NaN",
        "Infinity",
        '"\\ud800"',
        '"\\ud83d x"',
        '"\\udc00\\ud800"',
        '{"\\ud800":1}',
        "0x1",
    ],
)
def test_values_that_readers_read_differently_are_refused(value: str) -> None:
    """A number out of a double's range, in a form that JSON has not, or half a surrogate pair."""
    line = f'{{"id":1,"method":"tools/call","params":{{"name":"x","arguments":{{"v":{value}}}}}}}'
    assert refusal(line).code == frames.PARSE_ERROR


def test_an_element_of_a_batch_is_held_to_the_same() -> None:
    """What is refused alone is refused in a batch."""
    element = '{"id":1,"method":"tools/call","params":{"name":"x","_meta":{"a":1,"A":2}}}'
    (raw,) = frames.read(f"[{element}]\n".encode(), Message)  # type: ignore[misc]
    assert "the same to some readers" in refusal(bytes(raw)).reason


def test_texts_that_look_like_keys_are_no_keys() -> None:
    """Text inside a string that looks like a key does not count as one."""
    text = '{"id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":":","b":"\\":","c":": \\"a\\":1"}}}'
    assert decode(text).params["arguments"] == {"a": ":", "b": '":', "c": ': "a":1'}


@for_each("key", ["Method", "METHOD", "meth\\u006fD", "Params", "param\u017f", "Id", "ID", "Name", "Uri"])
def test_a_watched_key_in_another_case_is_refused(key: str) -> None:
    """A key that another reader could take for a member of the protocol is refused."""
    assert "could be read as" in refusal(f'{{"id":1,"method":"x/y","{key}":{{}}}}').reason
    assert "could be read as" in refusal(f'{{"id":1,"method":"x/y","params":{{"{key}":{{}}}}}}').reason


@pytest.mark.parametrize("method", ["Tools/Call", "tools/call ", " tools/call", "TOOLS/CALL\\u0000", "tool\u017f/call"])
def test_a_method_that_could_be_read_as_a_call_is_refused(method: str) -> None:
    """A method that another reader could take for `tools/call` is refused."""
    assert "tools/call" in refusal(f'{{"id":1,"method":"{method}"}}').reason


@pytest.mark.parametrize("line", [b"{}\r{}\n", b"\r{}\n", b'{"id":1,\r"method":"x"}\n'])
def test_a_carriage_return_inside_is_refused(line: bytes) -> None:
    """A carriage return inside a line is a parse error."""
    assert refusal(line).code == frames.PARSE_ERROR


def test_a_carriage_return_at_the_end_is_white_space() -> None:
    """A carriage return right before the line feed is ignored."""
    message = frames.read(b'{"id":1,"method":"ping"}\r\n', Message)
    assert isinstance(message, Message)


@pytest.mark.parametrize("depth", [10, 190, 250, 990, 5000, 200_000])
def test_depth_is_bounded(depth: int) -> None:
    """A message that is nested deeper than the limit is a parse error."""
    line = '{"id":1,"method":"x","params":{"a":' + "[" * depth + "]" * depth + "}}"
    if depth < MAX_DEPTH - 5:
        assert decode(line).method == "x"
    else:
        assert refusal(line).code == frames.PARSE_ERROR


def test_the_id_of_a_refused_message_is_told_where_it_is_known() -> None:
    """The error for a refused request has its id, if it has one."""
    assert refusal('{"id":"x","method":5}').id == "x"
    assert refusal('{"id":5,"id":6,"method":"x"}').id is None
    assert refusal('{"id":1.5,"method":"x"}').id == 1.5


BAD = {
    "half a surrogate pair": b'"cut \\ud83d"',
    "NaN": b"NaN",
    "invalid UTF-8": b'"\xff"',
    "a control character": b'"\x01"',
    "a key twice": b'{"a":1,"a":2}',
    "levels": b"[" * 5000 + b"]" * 5000,
    "a carriage return": b"[\r]",
    "no value": b"undefined",
    "a trailing comma": b"[1,]",
    "a quote too many": b'"he said "hi""',
    "an id in a text": b'"\\"},\\"id\\":9,\\"x\\":{\\"" , "b":NaN',
    "an inner id": b'{"id":9,"method":"x","v":NaN}',
}


@for_each("kind", BAD)
@for_each("own", ["7", '"call-7"', "-1", '""'])
@for_each(
    "shape",
    [
        b'{"jsonrpc":"2.0","id":#,"method":"tools/call","params":{"name":"x","arguments":{"v":$}}}',
        b'{"method":"tools/call","params":{"name":"x","arguments":{"v":$}},"jsonrpc":"2.0","id":#}',
        b'{ "method" : "x" , "id" : # , "params" : {"_meta":{"v":$}} }',
    ],
)
def test_an_unreadable_request_is_answered_with_its_id(kind: str, own: str, shape: bytes) -> None:
    """Wherever the id stands, before or behind what cannot be read, the client learns which request was refused."""
    line = shape.replace(b"#", own.encode()).replace(b"$", BAD[kind]) + b"\n"
    assert refusal(line).id == json.loads(own)


@for_each(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"x","params":{"id":9,"v":NaN}}',
        b'{"jsonrpc":"2.0","method":"x","params":{"t":"\\"id\\":9","v":NaN}}',
        b'{"id":1,"method":"x","params":NaN,"id":2}',
        b'{"id":1,"method":"x","params":nan,"id":2}',
        b'{"id":1,"method":"x","params":NaN,"ID":2}',
        b'{"i\\u0064":1,"method":"x","params":NaN,"id":1}',
        b'{"id":1,"method":"x"}{"id":2,"method":"x"}',
        b'{"id":1,"method":"x"}\r{"id":2,"method":"x"}',
        b'{"id":1,"result":NaN}',
        b'{"result":NaN,"id":1}',
        b'{"id":1,"error":nan}',
        b'{"id":1,"method":"x","result":NaN}',
        b'{"id":"\\ud800","method":"x"}',
        b'{"id":NaN,"method":"x"}',
        b'{"id":{"id":1},"method":NaN}',
        b'{"id":[1],"method":NaN}',
        b'{"id":true,"method":NaN}',
        b'{"method":"x","params":{"t":"a "},"id":3,"x":" b"}}',
        b'{"method":"x","params":{"v":nan,"id":3}',
        b'"id":3,"method":"x"',
        b"id 3",
        b"",
    ],
)
def test_no_id_is_told_where_there_is_not_one(line: bytes) -> None:
    """An id of an answer, inside a text or an object, or one of two, is not that of the request."""
    assert refusal(line + b"\n").id is None


@for_each(
    ("head", "tail", "own"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"', b'"}}', 7),
        (b'{"method":"tools/call","params":{"x":"', b'"},"jsonrpc":"2.0","id":"a"}', "a"),
        (b'{"params":{"x":"', b'"},"id":7,"method":"tools/call"}', 7),
        (b'{"id":7,"method":"x","params":{"x":"', b'"},"id":8}', None),
        (b'{"method":"x","params":{"id":1,"x":"', b'","id":8}}', None),
        (b'{"method":"x","params":{"x":"', b'\\",\\"id\\":8}"}}', None),
        (b'{"id":7,"result":{"x":"', b'"}}', None),
        (b'{"result":{"x":"', b'"},"id":7}', None),
        (b"[" * 10, b'{"id":7}', None),
    ],
)
@for_each("size", [1000, 40_000])
def test_a_request_that_is_too_long_is_answered_with_its_id(head: bytes, tail: bytes, own: object, size: int) -> None:
    """The id of a request over the limit is found in its first or its last bytes."""
    assert refusal(Oversize(head + b"x" * size + tail + b"\n")).id == own


def test_an_odd_element_of_a_batch_is_refused_alone() -> None:
    """The elements of a batch are read one by one: one that cannot be read takes none along."""
    line = b'[{"id":1,"method":"ping"}, {"id":2,"method":"x","params":{"v":NaN}}]\n'
    one, two = frames.read(line, Message)  # type: ignore[misc]
    assert decode(one.decode()).id == 1
    assert refusal(two + b"\n").id == 2


ODD = st.sampled_from(
    [b"NaN", b'"\\ud800"', b'"\xff"', b'{"a":1,"a":2}', b"nan", b"[1,]", b'"a"b"', b'{"id":9}', b'"\\"id\\":9"']
)


@given(st.binary(max_size=60) | ODD, st.integers(-5, 5) | st.text(max_size=4), st.booleans())
def test_the_id_of_no_other_request_is_found(part: bytes, own: int | str, first: bool) -> None:
    """Whatever bytes stand in a request, the id in the error is its own, as every reader finds it, or none."""
    pairs = [b'"id":' + json.dumps(own).encode(), b'"method":"x"', b'"params":{"v":' + part.replace(b"\n", b" ") + b"}"]
    line = b"{" + b",".join(pairs if first else pairs[::-1]) + b"}\n"
    try:
        frames.read(line, Message)
    except FrameError as error:
        told = error.id
    else:
        return
    found = {told}
    for keep in (dict, lambda all_: dict(reversed(all_))):
        with suppress(ValueError, RecursionError, AttributeError):
            read = json.loads(
                line.decode("latin-1").encode("latin-1").decode(errors="replace"), strict=False, object_pairs_hook=keep
            )
            found.add(read.get("id"))
    assert told is None or found == {told}


def test_a_batch_is_its_elements_bytes() -> None:
    """A batch is read as the bytes of its elements, and an empty one is refused."""
    assert frames.read(b'[ {"a": 1.0} , 5,[1]]\n', Message) == [b'{"a": 1.0}', b"5", b"[1]"]
    assert refusal("[]").code == frames.INVALID_REQUEST


@pytest.mark.parametrize(
    ("value", "is_one"), [(1, True), ("a", True), ("", True), (True, False), (1.0, False), (None, False), ([], False)]
)
def test_what_may_be_an_id(value: object, is_one: bool) -> None:
    """An id is a text or an integer, and no boolean."""
    assert frames.is_id(value) is is_one


def test_removing_params_keeps_the_text_of_every_other_value() -> None:
    """Removing members of the params keeps the text of all other values."""
    line = b'{"jsonrpc":"2.0", "id":12345678901234567890123,"params":{"a" : 1.0,"requestState":"s","b":[1e2, "\\u00e9"]},"method":"m"}\n'
    edited = without_params(line, ("requestState", "inputResponses"))
    assert edited.endswith(b"}\n")
    for kept in (b'"id":12345678901234567890123', b'"a":1.0', b'"b":[1e2, "\\u00e9"]', b'"method":"m"'):
        assert kept in edited
    assert b"requestState" not in edited


def test_answers_are_lines_of_json_rpc() -> None:
    """Results, errors and requests are encoded as JSON-RPC objects."""
    assert json.loads(frames.result("a", {"x": 1})) == {"jsonrpc": "2.0", "id": "a", "result": {"x": 1}}
    error = json.loads(frames.error(2**70, -1, "no", {"d": 1}))
    assert error == {"jsonrpc": "2.0", "id": 2**70, "error": {"code": -1, "message": "no", "data": {"d": 1}}}
    assert json.loads(frames.request("q", "m", {}))["method"] == "m"
    result = frames.tool_result("t", modern=True, is_error=True)
    assert result == {"content": [{"type": "text", "text": "t"}], "isError": True, "resultType": "complete"}
