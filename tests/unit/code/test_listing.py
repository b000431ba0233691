"""What every client sends to its model: the list of tools, which is small and still says what each takes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from adjourn.code.server.server import TOOLS, CodeServer
from adjourn.code.server.tool import CodeOptions, schema

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


DIGESTS = {
    "start_session": ("e7c9d5cfe290", ""),
    "submit_phase": ("a14de85b6f41", ""),
    "get_session_status": ("108be736f460", ""),
    "search_text": ("8f8ff7adcd51", "27777f058c69"),
    "search_files": ("ccb9557943d5", "b0fd40a3acf6"),
    "find_definitions": ("16967ac9a7ea", "f7396d7bf768"),
    "find_references": ("cbc72efe1482", "a7bf1dbfcf71"),
    "read_symbol": ("5c772d02374a", "718d4f8ec97a"),
    "outline": ("1d504b01f258", "a3b3e8618978"),
    "rename_symbol": ("c6baa3d05a27", ""),
    "diagnostics": ("6c82cd1b77f6", "199e231d89f4"),
    "analyze_structure": ("a7dfe1927b24", "d42293feb078"),
    "get_symbols": ("5913c3e9e495", "b0be99f83e6a"),
    "get_function_at_line": ("ef282019b9ee", ""),
    "query": ("16aafeae173b", "07fb78ec8ef4"),
    "fetch_chunk_detail": ("2b777416266a", "0c534873e610"),
    "semantic_search": ("1401149a23e4", "279cc698ef65"),
    "check_write_target": ("0f06a4e14488", ""),
    "add_explored_files": ("2b6cf3da2ee4", ""),
    "revert_to_exploration": ("a16e5e37afe0", ""),
    "review_changes": ("0f1074aaa29a", ""),
    "analyze_impact": ("0253f10d8970", ""),
    "cleanup_stale_branches": ("4a965135602d", ""),
    "sync_index": ("c894a8745fbc", ""),
    "update_context": ("8d6adcc8c64d", ""),
}
"""Of each entry of `tools/list` as JSON: of all tools, and of those of --search-only, which are shorter."""


def digest(entry: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(entry)).hexdigest()[:12]


def test_the_list_is_byte_for_byte_the_published_one(tmp_path: Path) -> None:
    """What clients send to their models changes only together with this table."""
    every = CodeServer(str(tmp_path), CodeOptions(symbols=True)).listed_tools
    brief = CodeServer(str(tmp_path), CodeOptions(symbols=True, search_only=True)).listed_tools
    shorter = {entry["name"]: digest(entry) for entry in brief}
    listed = [(entry["name"], digest(entry), shorter.get(entry["name"], "")) for entry in every]
    assert listed == [(name, *digests) for name, digests in DIGESTS.items()]
    default = CodeServer(str(tmp_path)).listed_tools
    assert default == [entry for entry in every if entry["name"] in {one["name"] for one in default}]


@pytest.mark.parametrize("brief", [False, True])
def test_the_schemas_name_the_arguments(*, brief: bool) -> None:
    """Each schema is valid, names only arguments that the tool takes, and all that it requires."""
    for tool in TOOLS:
        found = schema(tool, brief=brief)
        jsonschema.Draft202012Validator.check_schema(found)
        fields = {field.name: field for field in msgspec.structs.fields(tool)}
        assert found["properties"].keys() <= fields.keys()
        assert set(found.get("required", ())) == {name for name, field in fields.items() if field.required}
        assert "$ref" not in json.dumps(found)


def test_the_schemas_take_what_the_tools_take() -> None:
    """An input that the server takes is one that a client may send by the schema."""
    for tool in TOOLS:
        for example in EXAMPLES.get(tool.name, ()):
            msgspec.convert(example, tool)
            jsonschema.validate(example, schema(tool))


def test_search_only_has_no_sessions(tmp_path: Path) -> None:
    """The tools of sessions are unknown there, and the instructions name none of them."""
    server = CodeServer(str(tmp_path), CodeOptions(search_only=True))
    names = {tool["name"] for tool in server.listed_tools}
    assert "start_session" not in names | set(server.instructions.split())
    assert {tool["annotations"].get("readOnlyHint") for tool in server.listed_tools} == {True}
