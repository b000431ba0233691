"""All strategies of the property tests: JSON values, event data, chains and histories, contracts and calls, records.

Owns: every Hypothesis strategy that more than one test draws from.
"""

from __future__ import annotations

from random import Random
from typing import Any, Literal, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from adjourn.knowledge.model.cognition import CognitiveCheckpoint
from adjourn.knowledge.model.documents import Tree
from adjourn.log import kinds
from adjourn.log.event import Actor, timestamp
from adjourn.store.base import Entry
from support.clock import NOON
from support.documents import fork_of, make, record_of
from support.events import linked

MAX_INTEGER = 2**53 - 1

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
"""Unicode texts, control characters included."""
ascii_texts = st.text(st.characters(max_codepoint=127), max_size=8)
integers = st.integers(-MAX_INTEGER, MAX_INTEGER)
numbers = integers | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | integers | texts
milliseconds = st.integers(-62_135_596_800_000, 253_402_300_799_999)
"""The years 1 to 9999."""
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)


def json_values(
    leaves: st.SearchStrategy[Any] = scalars | numbers, keys: st.SearchStrategy[str] = texts
) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5), max_leaves=25
    )


def _of_type(kind: Any) -> st.SearchStrategy[Any]:
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    known: dict[Any, st.SearchStrategy[Any]] = {
        str: texts,
        int: integers,
        bool: st.booleans(),
        list[str]: st.lists(texts, max_size=3),
    }
    if get_origin(kind) is list and kind not in known:
        return st.lists(data_of_kind(*get_args(kind)), max_size=3)
    return known[kind]


def data_of_kind(kind: type[kinds.Data]) -> st.SearchStrategy[Any]:
    """Any data that fits a kind; members with defaults are often at their default."""
    members = {}
    for field in msgspec.structs.fields(kind):
        values = _of_type(field.type)
        members[field.name] = values if field.required else st.just(kinds.default_of(field)) | values
    return st.builds(kind, **members)


data = st.sampled_from(list(kinds.REGISTRY.values())).flatmap(data_of_kind)
actors = st.builds(Actor, texts, st.sampled_from(["agent", "human", "system"]))


def chains(min_size: int = 0) -> st.SearchStrategy[list[Entry]]:
    """Chains that hold, of entries that are hardly ever JSON: verification does not decode."""
    return st.lists(st.binary(max_size=12), min_size=min_size, max_size=8).map(linked)


SESSIONS = ["s1", "s2", "s3"]
CALLS = ["c1", "c2", "c3", "c4"]
APPROVALS = ["q1", "q2", "q3"]
TOOLS = ["read_file", "deploy"]

_session, _call, _approval = st.sampled_from(SESSIONS), st.sampled_from(CALLS), st.sampled_from(APPROVALS)
_tool, _digest = st.sampled_from(TOOLS), st.sampled_from(["0" * 64, "1" * 64])

telling: st.SearchStrategy[kinds.Data] = st.one_of(
    st.builds(
        kinds.SessionOpened,
        budget=st.integers(-1, 3),
        group=st.sampled_from(["g1", "g2"]),
        host=st.just("box:b:n"),
        pid=st.integers(1, 3),
        policy=_digest,
        started=st.just(7),
    ),
    st.builds(kinds.SessionClosed, reason=st.just("eof"), to=st.sampled_from(["", "other"])),
    st.builds(
        kinds.SessionLost,
        calls=st.lists(_call, max_size=2),
        lost=_session,
        reason=st.sampled_from(["dead", "expired", "taken-over"]),
    ),
    st.builds(
        kinds.ToolAllowed,
        approval=st.just("") | _approval,
        call=_call,
        digest=_digest,
        effectful=st.booleans(),
        tool=_tool,
        uncounted=st.booleans(),
    ),
    st.builds(kinds.ToolContinued, call=_call),
    st.builds(kinds.ToolDefined, definition=_digest, tool=_tool),
    st.builds(kinds.ToolChanged, after=_digest, before=_digest, tool=_tool),
    st.builds(
        kinds.ToolSettled,
        call=_call,
        outcome=st.sampled_from(["ok", "tool-error", "error", "input-required", "no-answer"]),
        state=st.sampled_from(["", "2" * 64, "3" * 64]),
    ),
    st.builds(kinds.TaskFinished),
    st.builds(kinds.TaskReopened),
    st.builds(kinds.EffectSettled, call=_call, outcome=st.sampled_from(["done", "not-done"])),
    st.builds(
        kinds.ConfirmRequired,
        approval=_approval,
        cause=st.just("confirm deploy"),
        definition=st.just("") | _digest,
        digest=_digest,
        doubt=st.just("") | _call,
        expires=st.integers(-5, 20).map(lambda seconds: timestamp(NOON + 1000 * seconds)) | texts,
        tool=_tool,
    ),
    st.builds(kinds.ConfirmApproved, approval=_approval, tool=_tool, via=st.just("terminal")),
    st.builds(kinds.ConfirmDenied, approval=_approval, tool=_tool, via=st.just("timeout")),
)
"""Data of kinds that a ledger acts on, with few names, so that events meet."""

histories = st.lists(st.tuples(telling | data, _session), max_size=40)
"""Facts in any order, sensible or not: whatever a valid chain may hold."""


# --- texts of the contract language: well-formed, mutilated, and anything at all

_AEX_NAMES = st.sampled_from(["a", "b.c", "x-y", "patch", "target_files", "final.passed", "it's", "1", ""])
_AEX_TOOLS = st.sampled_from(["file.read", "file.*", "*", "git.push", "net_*", "x y", "file.read:src/**", ".*", ""])
_AEX_VALUES = st.sampled_from(
    ["a", '"a, b"', "'x", "[a, [b]]", "{k: a, j: {x: 1}}", "12", "-.5", "true", "a.b.c", "((", "}", "it's, b", ""]
)
_INDENTS = st.sampled_from(["", " ", "  ", "    ", "\t", "\ufeff", "\u00a0 "])
_ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\n# note\n"])

_OPERATORS = st.sampled_from(["is", "in", "matches", "~", "<=", "==", "and", ""])
_STATEMENTS = st.one_of(
    st.builds(
        "{} {} v{}".format,
        st.sampled_from(["task", "agent", "policy"]),
        _AEX_NAMES,
        st.sampled_from(["0", "1", "1", "x"]),
    ),
    st.builds('goal "{}"'.format, _AEX_VALUES),
    st.builds("{} {}, {}".format, st.sampled_from(["use", "allow", "deny"]), _AEX_TOOLS, _AEX_TOOLS),
    st.builds("need {}: {}".format, _AEX_NAMES, st.sampled_from(["str", "list[file]", "json??", "lst", ""])),
    st.builds("budget {}={}".format, st.sampled_from(["calls", "usd"]), _AEX_VALUES),
    st.builds("do {}({}={}, {}) -> {}".format, _AEX_TOOLS, _AEX_NAMES, _AEX_VALUES, _AEX_VALUES, _AEX_NAMES),
    st.builds("make {}: t from {}, {} with:\n - one\n- two".format, _AEX_NAMES, _AEX_NAMES, _AEX_NAMES),
    st.builds(
        "check {} {} {}".format, _AEX_NAMES, st.sampled_from(["has", "touches only", "does not include"]), _AEX_VALUES
    ),
    st.builds("check {}".format, _AEX_NAMES),
    st.builds("confirm before {}".format, _AEX_TOOLS),
    st.builds("return {}".format, _AEX_VALUES),
    st.builds("return {{\n  {}: {}\n{}".format, _AEX_NAMES, _AEX_VALUES, st.sampled_from(["}", "", "  }", "x }"])),
    st.builds(
        "{} {} where {} {} {}".format,
        st.sampled_from(["use", "deny", "confirm before"]),
        _AEX_TOOLS,
        _AEX_NAMES,
        _OPERATORS,
        _AEX_VALUES,
    ),
    st.builds("confirm before {} by {} within {} else {}".format, _AEX_TOOLS, _AEX_NAMES, _AEX_VALUES, _AEX_NAMES),
    st.builds("limit {} {} per {}".format, _AEX_TOOLS, _AEX_VALUES, st.sampled_from(["day", "week", ""])),
    st.builds("once {} by {}".format, _AEX_TOOLS, _AEX_NAMES),
    st.builds("checkpoint before {}, at {}%".format, _AEX_TOOLS, _AEX_VALUES),
    st.builds("{} {}".format, st.sampled_from(["mode", "require signed by", "checkpoint at"]), _AEX_NAMES),
    st.builds("if {}".format, _AEX_NAMES),
    st.builds("for {} in {}".format, _AEX_NAMES, _AEX_VALUES),
    st.sampled_from(["use", "if", "- item", "confirm x", "else", "use\tx", "}", '"']),
)

contract_lines = st.builds("{}{}{}".format, _INDENTS, _STATEMENTS, _ENDS)
contract_documents = st.lists(contract_lines, max_size=20).map("".join)
text_mutations = st.tuples(st.integers(0, 400), st.integers(0, 30), st.text(max_size=3))


def mutated(document: str, changes: list[tuple[int, int, str]]) -> str:
    """The text with pieces replaced: start, length and what stands there instead."""
    for start, length, text in changes:
        document = document[:start] + text + document[start + length :]
    return document


contract_texts = st.one_of(
    contract_documents,
    st.builds(mutated, contract_documents, st.lists(text_mutations, max_size=4)),
    st.text(max_size=200),
)

tool_names = st.text("abcXYZ019_.-/", min_size=1, max_size=24)
tool_patterns = st.one_of(st.just("*"), tool_names, tool_names.map(lambda name: name + ".*"))

# --- version 1: calls, and the rules that decide them

_CALL_SCALARS = st.sampled_from(["x", "X", "git status", "", 0, 1, 2.5, True, False, None, "\ud800"])
_CALL_VALUES = st.recursive(
    _CALL_SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["b", "c"]), inner, max_size=2),
    max_leaves=6,
)
call_arguments = st.dictionaries(st.sampled_from(["a", "b"]), _CALL_VALUES, max_size=2)
_ARGUMENT = st.sampled_from(["a", "b", "a.b", "a.b.c"])
_TESTS = st.one_of(
    st.builds("{} is {}".format, _ARGUMENT, st.sampled_from(['"x"', "1", "true"])),
    st.builds("{} in {}".format, _ARGUMENT, st.sampled_from(['["x", 1]', '["git status"]', "[0, 2.5]"])),
    st.builds("{} matches {}".format, _ARGUMENT, st.sampled_from(['"*"', '"git *"', '"?"'])),
    st.builds("{} ~ {}".format, _ARGUMENT, st.sampled_from(['"^x$"', '"(?i)^x"', '"t"'])),
    st.builds("{} {} {}".format, _ARGUMENT, st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from(["1", "2.5"])),
)
wheres = st.lists(_TESTS, min_size=1, max_size=2).map(lambda tests: "where " + " and ".join(tests))
_NAMED = st.sampled_from(["*", "t", "t.*", "t.a", "u", "T", "t_a"])
_SCOPES = st.sampled_from(["", "", ":src/**", ":src/a/*", ":docs/*", ":**"])
scoped_patterns = st.builds("{}{}".format, _NAMED, _SCOPES)
_CLAUSES = st.one_of(st.just(""), st.just(""), wheres)
_ALLOWS = st.builds("use {} {}".format, scoped_patterns, _CLAUSES)
_DENIES = st.builds("deny {} {}".format, scoped_patterns, _CLAUSES)
_CONFIRMS = st.builds(
    "confirm before {} {}{}{}{}".format,
    scoped_patterns,
    _CLAUSES,
    st.sampled_from(["", " by human", " by alice"]),
    st.sampled_from(["", " within 5m", " within 1h"]),
    st.sampled_from(["", " else allow", " else deny"]),
)
_OTHERS = st.one_of(
    st.builds("limit {} {} per {}".format, _NAMED, st.integers(1, 9), st.sampled_from(["second", "day"])),
    st.builds("once {} by a".format, _NAMED),
    st.builds("checkpoint before {}, at {}%".format, _NAMED, st.integers(1, 100)),
    st.builds(
        "budget {}={}".format, st.sampled_from(["calls", "minutes", "tokens", "usd"]), st.sampled_from(["0", "5", "9"])
    ),
)
rule_lines = st.lists(st.one_of(_ALLOWS, _ALLOWS, _DENIES, _CONFIRMS, _OTHERS), max_size=8)
subjects = st.sampled_from(["user:ann", "user:bob", "group:ops", "group:Dev", "service:ci"])
block_rules = st.lists(
    st.one_of(
        st.builds("allow {} {}".format, scoped_patterns, _CLAUSES),
        _DENIES,
        _CONFIRMS,
        st.builds("limit {} {} per day".format, _NAMED, st.integers(1, 9)),
    ),
    min_size=1,
    max_size=4,
)
rule_blocks = st.lists(st.tuples(st.lists(subjects, min_size=1, max_size=3), block_rules), max_size=4)
"""Rules for somebody: those whom they are for, and the lines."""
call_tools = st.sampled_from(["t", "t.a", "t.b", "u", "T", "t_a", "t/a", "v"])
call_paths = st.lists(st.sampled_from(["src/x", "src/a/b", "docs/c", "SRC/a/x", "etc"]), max_size=2)


# --- documents of the knowledge model: made from one drawn number, because drawing each part is slow


def structs(kind: type) -> st.SearchStrategy[Tree]:
    """Trees that fit a type."""
    return st.integers(0, 2**32).map(lambda seed: make(kind, Random(seed)))


cognitive_checkpoints = structs(CognitiveCheckpoint)
"""Checkpoints of the right types; their references lead anywhere."""
records = st.integers(0, 2**32).map(lambda seed: record_of(Random(seed)))
forks = st.integers(0, 2**32).map(lambda seed: fork_of(Random(seed)))
