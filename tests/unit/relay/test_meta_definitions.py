"""The definitions of the meta-tools: what each of them costs in every prompt of every client."""

from __future__ import annotations

import json

from adjourn.aex.match import META_TOOLS
from adjourn.relay.meta import DEFINITIONS, MAX_CHARACTERS


def test_all_meta_tools_together_fit_into_their_limit() -> None:
    """The definitions of all meta-tools, as compact JSON, take at most 5,000 characters."""
    listed = [{"name": name} | definition for name, definition in DEFINITIONS.items()]
    assert len(json.dumps(listed, separators=(",", ":"), ensure_ascii=False)) <= MAX_CHARACTERS == 5000


def test_each_meta_tool_is_defined_in_the_order_of_their_names() -> None:
    """Every meta-tool has a definition that says what it does and whether it writes, and an object for its arguments."""
    assert tuple(DEFINITIONS) == META_TOOLS
    for name, definition in DEFINITIONS.items():
        assert definition["description"].endswith("."), name
        assert definition["inputSchema"]["type"] == "object"
        for schema in definition["inputSchema"]["properties"].values():
            # the interfaces of some models require it
            assert schema.get("type") != "array" or "items" in schema, name
        assert definition["annotations"] in (
            {"readOnlyHint": True, "openWorldHint": False},
            {"destructiveHint": False, "openWorldHint": False},
        ), name
