"""The line about the budget in an answer: where it goes, and what it leaves alone."""

from __future__ import annotations

import json

import pytest

from adjourn.relay.answers import META_BUDGET, with_notice
from adjourn.tasks.budgets import SpentShare

SHARE = SpentShare("calls", 75, 15, 20)


def _line(result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","result":%s,"id":7}\n' % result


def test_the_notice_comes_last_and_nothing_else_changes() -> None:
    """It is one text block behind the server's own content; numbers, escapes and the order of members stay as they are."""
    line = _line(b'{"x":1.0,"content":[{"type":"text","text":"\\u00e9"}],"structuredContent":{"n":1e2}}')
    edited = with_notice(line, "save it", ())
    assert edited == line.replace(b'"}],', b'"},{"type":"text","text":"save it"}],')


def test_the_stateless_era_gets_the_numbers_beside_it() -> None:
    """`_meta` has each budget with its share, beside what the server put there."""
    edited = with_notice(_line(b'{"content":[],"_meta":{"a/b":1},"resultType":"complete"}'), "save it", [SHARE])
    assert edited is not None
    meta = json.loads(edited)["result"]["_meta"]
    share = {"budget": "calls", "percent": 75, "used": 15, "limit": 20, "owner": "task"}
    assert meta == {"a/b": 1, META_BUDGET: [share]}


@pytest.mark.parametrize(
    "result",
    [
        b'{"content":[{"type":"text","text":"no"}],"isError":true}',
        b'{"content":"text"}',
        b"{}",
        b'{"messages":[]}',
        b'{"content":[],"structuredContent":{"n":1}}',
        b'{"resultType":"input_required","content":[]}',
    ],
)
def test_other_answers_carry_no_notice(result: bytes) -> None:
    """An error, a result without a list of content, one with structured content alone, and a question to the client stay."""
    assert with_notice(_line(result), "save it", ()) is None
    assert with_notice(b'{"jsonrpc":"2.0","error":{"code":1,"message":"m"},"id":7}\n', "save it", ()) is None
