"""Documents are read strictly, keep what is not known, and say what is wrong with which value."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import make_record_vectors
from adjourn.errors import InvalidError
from adjourn.knowledge.model import documents
from adjourn.knowledge.model.cognition import CognitiveNode, CognitiveSession
from adjourn.knowledge.model.documents import Tree, accept, parts_of, pointer, read, same, view, write
from adjourn.knowledge.model.record import ContinuationRecord, RecordContent
from adjourn.log.canonical_json import canonical
from support.cases import for_each
from support.documents import sample
from support.strategies import json_values, records, structs, texts


@given(structs(CognitiveSession))
def test_a_session_is_kept_as_it_is(session: Tree) -> None:
    """A document that is read and written has every member, the unknown ones too, and the same canonical bytes."""
    assert write(read(json.dumps(session), CognitiveSession), CognitiveSession) == canonical(session)


@given(records)
def test_a_view_has_the_fields_under_their_python_names(record: Tree) -> None:
    """The typed view reads the published names, irregular ones included; what is absent is UNSET, which is false."""
    seen = view(record, ContinuationRecord)
    assert (seen.parent_cr_hash, seen.content_hash) == (record["parentCRHash"], record["contentHash"])
    assert [node.id for node in seen.questions_for_user] == [item["id"] for item in record["questionsForUser"]]
    assert bool(seen.merkle_root) == bool(record.get("merkleRoot"))


def test_the_published_names_are_the_types_names() -> None:
    """Every member that the published record names is a member of the type, and the list is whole."""
    names = {field.encode_name for field in msgspec.structs.fields(ContinuationRecord)}
    assert names == {
        "id", "version", "contentHash", "parentCRHash", "merkleRoot", "task", "createdBy", "createdAt", "lastModifiedBy",
        "lastModifiedAt", "executionSummary", "decisions", "learnings", "questionsForUser", "blockers", "resumePoints",
        "toolEffects", "invariants", "metadata", "sequence", "mergeParentHashes", "checkpointId", "conflicts",
        "effectsThrough",
    }  # fmt: skip
    node = {field.encode_name for field in msgspec.structs.fields(CognitiveNode)}
    assert node == {
        "id", "type", "phase", "status", "label", "description", "assumptions", "openQuestions", "confidence",
        "toolBinding", "parentId", "childIds", "blockedBy", "createdAt", "startedAt", "completedAt", "checkpointId",
        "branchId",
    }  # fmt: skip


WRONG: list[tuple[str, Any, str, str]] = [
    (
        "task.status",
        "done",
        "/task/status: Invalid enum value 'done'; it is 'done'",
        "use one of not-started, in-progress, blocked",
    ),
    ("task.startedAt", None, "/task/startedAt: Expected `int`, got `null`", "leave an optional field out"),
    ("createdAt", -1, "/createdAt: Expected `int` >= 0; it is -1", "give what is expected"),
    ("createdAt", 1.5, "/createdAt: Expected `int`, got `float`; it is 1.5", "give what is expected"),
    ("metadata", {}, "/metadata: Object missing required field `tags`", "add the field"),
    ("decisions.0.id", "", "/decisions/0/id: Expected `str` of length >= 1; it is ''", "give what is expected"),
    ("decisions.0.overridableBy", ["all"], "/decisions/0/overridableBy/0: Invalid enum value 'all'", "human"),
    ("decisions", {"d": 1}, "/decisions: Expected `array`, got `object`", "give what is expected"),
    ("parentCRHash", "AB" * 32, "/parentCRHash: Expected `str` matching regex", "give what is expected"),
    (
        "task.goal",
        "x" * (documents.MAX_TEXT + 1),
        "/task/goal: Expected `str` of length <= 65536; it is 'xxx",
        "give what is expected",
    ),
    (
        "metadata.tags",
        ["x"] * (documents.MAX_ITEMS + 1),
        "/metadata/tags: Expected `array` of length <= 100000",
        "give what is expected",
    ),
]


@for_each(("path", "value", "message", "remedy"), WRONG)
def test_what_is_wrong_is_said_with_path_value_and_remedy(path: str, value: Any, message: str, remedy: str) -> None:
    """Input of the wrong type raises InvalidError that names the path, the value and what would be right."""
    record: Any = sample()
    *parts, last = path.split(".")
    inner = record
    for part in parts:
        inner = inner[int(part) if part.isdecimal() else part]
    inner[last] = value
    with pytest.raises(InvalidError) as caught:
        accept(record, ContinuationRecord)
    assert f"ContinuationRecord {message}" in caught.value.message
    assert remedy in caught.value.remedy
    assert len(str(caught.value)) < 400


def test_a_value_under_a_name_of_its_own_is_found() -> None:
    """The path of an error inside a map has the name in it."""
    branch = {"id": "b", "name": "b", "createdAt": 1, "status": "active"}
    session = {**_session(), "branches": {"main": branch, "odd": {**branch, "status": "gone"}}}
    with pytest.raises(InvalidError, match=r"/branches/odd/status: Invalid enum value 'gone'"):
        accept(session, CognitiveSession)


def _session() -> Tree:
    return {
        "id": "s", "name": "s", "createdAt": 1, "lastModifiedAt": 1, "currentBranchId": "main", "branches": {}, "checkpoints": {},
        "workingState": {
            "nodes": [], "epistemicState": {"facts": [], "assumptions": [], "openQuestions": [], "beliefs": []},
            "intentGraph": {"goals": [], "rootIntentId": "g"},
        },
        "totalMetrics": {},
    }  # fmt: skip


@for_each(
    "text",
    [
        "", "{", "[]", "null", '{"id":"a","id":"b"}', '{"a":NaN}', "[" * 5000, '{"x":' + "[" * 201 + "]" * 201 + "}",
        b"\xff", '{"x": 9007199254740993}', '{"x": "\\ud800"}', '{"a": 1' + "0" * 5000 + "}",
    ],
)  # fmt: skip
def test_what_is_no_document_is_refused(text: str | bytes) -> None:
    """Text that is not JSON, says a name twice, is nested too deeply or has numbers beyond JSON raises InvalidError."""
    with pytest.raises(InvalidError):
        read(text, ContinuationRecord)


def test_a_document_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes beyond the bound are refused before they are read, and never written."""
    monkeypatch.setattr(documents, "MAX_DOCUMENT_BYTES", 1000)
    with pytest.raises(InvalidError, match=r"bytes \(limit 1000\)"):
        read(json.dumps(sample()), ContinuationRecord)
    with pytest.raises(InvalidError, match=r"bytes \(limit 1000\)"):
        write(sample(), ContinuationRecord)


def test_numbers_are_taken_as_json_means_them() -> None:
    """1.0 is the integer 1 for JSON, and is so in a tree that was accepted; the value given in is not kept."""
    given_: Any = {**sample(), "createdAt": 1.0, "x": {"later": [2.0]}}
    tree = accept(given_, ContinuationRecord)
    assert (tree["createdAt"], tree["x"]) == (1, {"later": [2]})
    assert type(tree["createdAt"]) is int
    given_["x"]["later"].append(3)
    assert tree["x"] == {"later": [2]}


@given(json_values(), json_values())
def test_same_is_the_same_canonical_form(one: Any, other: Any) -> None:
    """Two values are the same exactly when their canonical bytes are."""
    assert same(one, other) == (canonical(one) == canonical(other))
    assert same(one, copy.deepcopy(one))


@pytest.mark.parametrize(("one", "other"), [(1, True), ([0], [False]), ({"a": 1}, {"a": True}), ("", None)])
def test_true_is_not_one(one: Any, other: Any) -> None:
    """What Python takes for equal and JSON does not is not the same."""
    assert not same(one, other)


@given(st.lists(texts, min_size=1))
def test_pointers_lead_back(parts: list[str]) -> None:
    """A path has its parts, whatever they are made of."""
    assert parts_of(pointer(*parts)) == parts


@pytest.mark.parametrize("name", make_record_vectors.PUBLISHED)
def test_the_schemas_are_those_of_the_types(name: str) -> None:
    """spec/schemas is not stale; `python tests/make_record_vectors.py` renews it."""
    assert (make_record_vectors.SCHEMAS / f"{name}.json").read_text("utf-8") == make_record_vectors.schema_text(name)
    assert {path.stem for path in make_record_vectors.SCHEMAS.iterdir()} == set(make_record_vectors.PUBLISHED)


@given(records)
def test_the_schema_takes_records_and_refuses_what_the_type_refuses(record: Tree) -> None:
    """A validator that knows only the schema agrees with the type."""
    assert VALIDATOR.is_valid(record)
    assert not VALIDATOR.is_valid({**record, "createdAt": -1})
    assert not VALIDATOR.is_valid({**record, "task": {**record["task"], "status": "done"}})
    assert not VALIDATOR.is_valid({name: value for name, value in record.items() if name != "contentHash"})


def _validator() -> Any:
    import jsonschema  # comes with the mcp package

    return jsonschema.Draft202012Validator(json.loads(make_record_vectors.schema_text("record")))


VALIDATOR = _validator()


def test_content_is_a_record_without_its_seal() -> None:
    """The type of what is hashed has all members but the two that are made from the hash."""
    sealed, content = (
        {field.encode_name for field in msgspec.structs.fields(kind)} for kind in (ContinuationRecord, RecordContent)
    )
    assert sealed - content == {"contentHash", "merkleRoot"}
