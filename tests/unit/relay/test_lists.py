"""Edits of what the upstream says about itself: hidden tools go, ours come, no other value changes its text."""

from __future__ import annotations

import json

import msgspec
import pytest

from adjourn.relay.tools import edit_tools, greeting, own_list

OURS = [{"name": "aex.resume"}]
NUMBERS = b'{"f":1.0,"l":12345678901234567890123,"e":1e2,"u":"\\u00e9"}'


def line(*tools: bytes, more: bytes = b"") -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":{"tools":[' + b",".join(tools) + b"]" + more + b"}}\n"


def tool(name: str, extra: bytes = b"") -> bytes:
    return b'{"name":"%s","x":%s%s}' % (name.encode(), NUMBERS, extra)


def test_hidden_tools_go_and_ours_are_appended() -> None:
    """An edited list lacks the hidden tools, ends with the meta-tools, and keeps the text of numbers."""
    edit = edit_tools(line(tool("a"), tool("b"), tool("c")), lambda name: name != "b", lambda: OURS)
    assert edit.line is not None
    assert [one["name"] for one in json.loads(edit.line)["result"]["tools"]] == ["a", "c", "aex.resume"]
    assert edit.line.count(NUMBERS) == 2
    assert (edit.names, edit.removed) == (["a", "c"], ["b"])


def test_a_page_that_is_not_the_last_gets_none_of_ours() -> None:
    """A page with a cursor gets no meta-tools; an empty cursor counts as none."""
    assert edit_tools(line(tool("a"), more=b',"nextCursor":"x"'), lambda _: True, lambda: OURS).line is None
    edit = edit_tools(line(tool("a"), more=b',"nextCursor":""'), lambda _: True, lambda: OURS)
    assert edit.line is not None


def test_what_need_not_be_edited_is_not() -> None:
    """A list without hidden tools and without meta-tools is passed on unchanged."""
    assert edit_tools(line(tool("a")), lambda _: True, list).line is None


def test_only_a_true_hint_makes_a_tool_read_only() -> None:
    """A tool is read-only only if its readOnlyHint is the value true."""
    hints = [b"true", b"false", b"1", b'"true"', b"null"]
    tools = [tool(f"t{n}", b',"annotations":{"readOnlyHint":%s}' % hint) for n, hint in enumerate(hints)]
    tools.append(tool("none"))
    tools.append(tool("odd", b',"annotations":5'))
    edit = edit_tools(line(*tools), lambda _: True, list)
    assert [name for name, hint in edit.read_only.items() if hint] == ["t0"]


@pytest.mark.parametrize("odd", [b"5", b"null", b"[]", b'{"name":5}', b"{}"])
def test_an_entry_without_a_name_is_treated_as_the_empty_name(odd: bytes) -> None:
    """An entry of the list without a name is hidden where the empty name is."""
    edit = edit_tools(line(tool("a"), odd), lambda name: name != "", list)
    assert edit.names == ["a"]


def test_a_tool_with_half_a_character_in_its_description_stays_as_it_is() -> None:
    """What no strict reader takes in one tool hides neither it nor others, and no hidden tool is shown for it."""
    odd = b',"description":"cut \\ud83d","annotations":{"readOnlyHint":true}'
    edit = edit_tools(
        line(tool("a", odd), tool("b", b',"d":NaN'), tool("c", b',"d":"\xff"')), lambda name: name != "b", lambda: OURS
    )
    assert edit.line is not None
    assert (edit.names, edit.removed, edit.read_only) == (["a", "c"], ["b"], {"a": True, "c": False})
    assert tool("a", odd) in edit.line
    assert tool("c", b',"d":"\xff"') in edit.line
    assert b'"b"' not in edit.line
    assert edit.line.endswith(b'{"name":"aex.resume"}]}}\n')
    again = edit_tools(line(tool("a", odd.replace(b"cut", b"put"))), lambda _: True, list)
    assert again.definitions["a"] != edit.definitions["a"]


def test_a_tool_whose_name_no_strict_reader_takes_has_none() -> None:
    """It is hidden where the empty name is, for two readers could take it for different tools."""
    edit = edit_tools(line(tool("a"), b'{"name":"b\\ud800"}', b'{"name":"c\xff"}'), lambda name: name != "", list)
    assert edit.names == ["a"]


@pytest.mark.parametrize("result", [b"5", b"[]", b'{"tools":5}', b'{"tools":null}', b"null"])
def test_a_malformed_list_is_an_error(result: bytes) -> None:
    """A result without a list of tools raises DecodeError."""
    with pytest.raises(msgspec.DecodeError):
        edit_tools(b'{"id":1,"result":%s}' % result, lambda _: True, lambda: OURS)


def test_a_tools_capability_is_added_once() -> None:
    """The greeting gets the capability `tools` if it lacks it, and keeps the text of numbers."""
    edited = greeting(b'{"id":1,"result":{"capabilities":{"x":1.0},"n":1e2}}')
    assert edited == b'{"id":1,"result":{"capabilities":{"x":1.0,"tools":{"listChanged":true}},"n":1e2}}\n'
    assert greeting(edited) is None
    assert greeting(b'{"id":1,"result":{}}') == b'{"id":1,"result":{"capabilities":{"tools":{"listChanged":true}}}}\n'


@pytest.mark.parametrize("tools", [b"{}", b'{"listChanged":false}', b'{"listChanged":"yes"}'])
def test_the_list_of_tools_may_change_whatever_the_server_says(tools: bytes) -> None:
    """A resume or an edited policy changes the list, so the greeting says that it may."""
    edited = greeting(b'{"id":1,"result":{"capabilities":{"tools":%s}}}' % tools)
    assert edited == b'{"id":1,"result":{"capabilities":{"tools":{"listChanged":true}}}}\n'
    assert greeting(b'{"id":1,"result":{"capabilities":{"tools":{ "listChanged" : true }}}}') is None


def test_a_list_of_ours_says_how_long_it_keeps_where_that_is_asked() -> None:
    """A list of meta-tools has the caching fields in the modern protocol only."""
    assert own_list(OURS, modern=False) == {"tools": OURS}
    assert own_list(OURS, modern=True) == {"tools": OURS, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def test_a_notice_goes_behind_what_the_server_says_itself() -> None:
    """Its own instructions come first and stay; without any the notice stands alone, and nothing else changes."""
    own = greeting(
        b'{"id":1,"result":{"capabilities":{"tools":{}},"instructions":"Be \\u00e9.","n":1e2}}', "Work waits."
    )
    assert (
        own
        == '{"id":1,"result":{"capabilities":{"tools":{"listChanged":true}},"instructions":"Be é.\\n\\nWork waits.","n":1e2}}\n'.encode()
    )
    alone = greeting(b'{"id":1,"result":{"capabilities":{"tools":{}}}}', "Work waits.")
    assert alone == b'{"id":1,"result":{"capabilities":{"tools":{"listChanged":true}},"instructions":"Work waits."}}\n'
    odd = greeting(b'{"id":1,"result":{"instructions":5}}', "Work waits.")
    assert odd == b'{"id":1,"result":{"instructions":"Work waits.","capabilities":{"tools":{"listChanged":true}}}}\n'
