"""Edits of messages of several servers keep the bytes of what they do not change, also where no strict reader takes them."""

from __future__ import annotations

import msgspec
import pytest

from adjourn.gateway.aggregate import merging
from adjourn.gateway.aggregate.task_handles import shown_item
from adjourn.mcp import server_lines

ODD = [b'"cut \\ud83d"', b"NaN", b'"\xff"', b"[" * 3000 + b"]" * 3000]


@pytest.mark.parametrize("value", ODD)
def test_a_message_gets_another_id_and_keeps_its_content(value: bytes) -> None:
    """The answer to a request that the gateway sent under an id of its own reaches the client with its result's bytes."""
    line = merging.with_id(b'{"jsonrpc":"2.0","id":"adjourn-1","result":{"id":3,"a":%b}}\n' % value, 7)
    passed, reply = server_lines.read(line)
    assert reply.id == 7
    assert b'{"id":3,"a":%b}' % value in passed


@pytest.mark.parametrize("value", ODD)
def test_a_request_of_a_server_gets_another_value_and_keeps_the_rest(value: bytes) -> None:
    """Of the params only the named one changes."""
    line = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":%b}}\n' % value
    assert b'"requestId":9,"reason":%b}' % value in merging.with_param(line, "requestId", 9)


@pytest.mark.parametrize("value", ODD)
def test_an_odd_item_of_a_list_hides_no_other(value: bytes) -> None:
    """The lists of several servers are joined item by item, each with its bytes."""
    items = b'{"name":"a","description":%b},{"name":"b"}' % value
    page = merging.page_of(b'{"id":1,"result":{"tools":[%b],"nextCursor":"x"}}\n' % items, "tools")
    assert page is not None
    assert [merging.member_of(item, "name") for item in page.items] == ["a", "b"]
    assert page.cursor == "x"
    renamed = bytes(merging.named(page.items[0], "s.a"))
    assert value in renamed
    assert merging.member_of(msgspec.Raw(renamed), "name") == "s.a"
    shown = bytes(shown_item(msgspec.Raw(b'{"taskId":"t","statusMessage":%b}' % value), "s"))
    assert shown == b'{"taskId":"s.t","statusMessage":%b}' % value
