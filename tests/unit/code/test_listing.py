"""What every client sends to its model: the list of tools, which is small and still says what each takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from adjourn.code.server.codebases import CodeOptions
from adjourn.code.server.inputs import schema
from adjourn.code.server.server import CodeServer
from adjourn.code.server.tools import TOOLS

EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "search_text": [{"pattern": "a"}, {"pattern": ["a", "b"], "context_lines": 2, "case_sensitive": False}],
    "start_session": [
        {"intent": "MODIFY", "query": "q", "flags": "--fast"}, {"intent": "MODIFY", "query": "q", "flags": {"fast": True}},
    ],
    "update_context": [{"design_doc_summaries": [{"path": "a.md", "summary": "s"}]}],
}  # fmt: skip


@pytest.mark.parametrize(("search_only", "most"), [(False, 12_000), (True, 4_000)])
def test_the_list_is_small(tmp_path: Path, most: int, *, search_only: bool) -> None:
    """All tools take at most 12 KB, and those of --search-only at most 4 KB."""
    listed = CodeServer(str(tmp_path), CodeOptions(search_only=search_only)).listed_tools
    assert len(json.dumps(listed, separators=(",", ":")).encode()) <= most


@pytest.mark.parametrize("brief", [False, True])
def test_the_schemas_name_the_arguments(*, brief: bool) -> None:
    """Each schema is valid, names only arguments that the tool takes, and all that it requires."""
    for tool in TOOLS:
        found = schema(tool.input_type, brief=brief)
        jsonschema.Draft202012Validator.check_schema(found)
        fields = {field.name: field for field in msgspec.structs.fields(tool.input_type)}
        assert found["properties"].keys() <= fields.keys()
        assert set(found.get("required", ())) == {name for name, field in fields.items() if field.required}
        assert "$ref" not in json.dumps(found)


def test_the_schemas_take_what_the_tools_take() -> None:
    """An input that the server takes is one that a client may send by the schema."""
    for tool in TOOLS:
        for example in EXAMPLES.get(tool.name, ()):
            msgspec.convert(example, tool.input_type)
            jsonschema.validate(example, schema(tool.input_type))


def test_search_only_has_no_sessions(tmp_path: Path) -> None:
    """The tools of sessions are unknown there, and the instructions name none of them."""
    server = CodeServer(str(tmp_path), CodeOptions(search_only=True))
    names = {tool["name"] for tool in server.listed_tools}
    assert "start_session" not in names | set(server.instructions.split())
    assert {tool["annotations"].get("readOnlyHint") for tool in server.listed_tools} == {True}
