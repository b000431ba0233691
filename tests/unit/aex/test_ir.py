"""The intermediate representation: the published keys, and a schema that every one of them fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from jsonschema import Draft202012Validator, ValidationError

from adjourn.aex.check import examine
from adjourn.aex.ir import Program, compiled, schema
from support import strategies
from support.cases import for_each

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").rglob("*.aex"))
SCHEMA = Draft202012Validator(schema())

TASK = """task t v0.2
goal "say "it""
use a.*, b
deny c
need n: list[str]
need m: json?
budget calls=1e2, usd=0.5
do a.x(p="n", q=n, r=[1, 2]) -> k
make d: diff from k with:
  - one
check k.passed
confirm before a.*
if k
  for i in n
    do b()
return {
  k: k
}
"""
POLICY = """policy p v1
goal "g"
mode observe
require signed by ann, bob
allow shell.exec where cmd matches "git *" and depth <= 3 and branch in ["a", 2, true]
allow y
deny z where n is "x"
budget minutes=90
limit net.*, y 10 per minute
once y by invoice.id
checkpoint before y, at 75%, 12.5%
confirm before y where a ~ "x" by human within 10m else deny
confirm before z, w
"""


def ir(text: str) -> Any:
    document = examine(text)
    assert not [found for found in document.findings if found.severity == "error"]
    made = json.loads(msgspec.json.encode(compiled(document)))
    SCHEMA.validate(made)
    return made


def test_the_schema_is_one_and_is_not_stale() -> None:
    """spec/aex-ir.schema.json is a JSON Schema and is the one made from the types."""
    Draft202012Validator.check_schema(schema())
    path = ROOT / "spec" / "aex-ir.schema.json"
    assert json.loads(path.read_text()) == schema(), "run: python -m adjourn.aex.ir > spec/aex-ir.schema.json"


def test_keys_and_order_are_the_published_ones() -> None:
    """A version 0 task has the keys that earlier implementations print, in their order, and all values are texts."""
    made = ir(TASK)
    assert list(made) == [
        "version", "agent", "type", "goal", "permissions", "needs", "budget", "steps", "return",
    ]  # fmt: skip
    assert (made["version"], made["agent"], made["type"]) == ("0.2", "t", "task")
    assert made["goal"] == 'say "it"'
    assert made["permissions"] == {"use": ["a.*", "b"], "deny": ["c"]}
    assert made["needs"] == {"n": "list[str]", "m": "json?"}
    assert made["budget"] == {"calls": 100, "usd": 0.5}
    assert made["return"] == "{\n  k: k\n}"
    call, make, check, confirm, branch, last = made["steps"]
    assert list(call.items()) == [
        ("op", "call"), ("tool", "a.x"), ("args", {"p": "n", "q": "n", "r": "[1, 2]"}), ("bind", "k"),
    ]  # fmt: skip
    assert make == {"op": "make", "bind": "d", "type": "diff", "inputs": ["k"], "instructions": ["one"]}
    assert check == {"op": "check", "condition": "k.passed"}
    assert confirm == {"op": "confirm", "tool": "a.*"}
    loop = {"op": "for", "variable": "i", "iterable": "n", "steps": [{"op": "call", "tool": "b", "args": {}}]}
    assert branch == {"op": "if", "condition": "k", "steps": [loop]}
    assert last == {"op": "return", "value": made["return"]}


def test_a_policy_says_that_it_is_one() -> None:
    """The type of a policy is `policy`; it has no return and no version 1 keys."""
    made = ir('policy p v0\ngoal "g"\nallow a\nconfirm before a\n')
    assert list(made) == ["version", "agent", "type", "goal", "permissions", "needs", "steps"]
    assert made["type"] == "policy"


def test_version_1_is_carried_whole() -> None:
    """Conditions, rates, effects, checkpoints, mode, signers and the clauses of a confirmation are in it."""
    made = ir(POLICY)
    assert made["permissions"]["use"] == ["y"]
    assert made["permissions"]["deny"] == []
    allow, deny = made["permissions"]["conditional"]
    assert allow == {
        "effect": "use",
        "patterns": ["shell.exec"],
        "where": [
            {"path": "cmd", "operator": "matches", "values": ["git *"]},
            {"path": "depth", "operator": "<=", "values": [3]},
            {"path": "branch", "operator": "in", "values": ["a", 2, True]},
        ],
    }
    assert (deny["effect"], deny["patterns"]) == ("deny", ["z"])
    assert made["mode"] == "observe"
    assert made["signedBy"] == ["ann", "bob"]
    assert made["limits"] == [{"patterns": ["net.*", "y"], "calls": 10, "perSeconds": 60}]
    assert made["once"] == [{"patterns": ["y"], "by": "invoice.id"}]
    assert made["checkpoints"] == [{"before": ["y"], "at": [75, 12.5]}]
    assert made["steps"][0] == {
        "op": "confirm", "tool": "y", "where": [{"path": "a", "operator": "~", "values": ["x"]}],
        "by": "human", "within": 600, "else": "deny",
    }  # fmt: skip
    assert [step["tool"] for step in made["steps"][1:]] == ["z", "w"]


def test_version_1_keeps_literals_apart_from_names() -> None:
    """Arguments of a version 1 task are as written: a quoted text is not taken for the input of that name."""
    made = ir('task t v1\ngoal "g"\nuse a\nneed n: str\ndo a(p="n", q=n)\nreturn 1\n')
    assert made["steps"][0]["args"] == {"p": '"n"', "q": "n"}


def test_a_budget_without_end_is_none() -> None:
    """Infinity is no JSON: no limit is no key, and what is below every number is 0."""
    assert "budget" not in ir('policy p v0\ngoal "g"\nbudget calls=Infinity\n')
    assert ir('policy p v0\ngoal "g"\nbudget calls=-Infinity, x=-3\n')["budget"] == {"calls": 0, "x": -3}


@for_each("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_fit_the_schema(path: Path) -> None:
    """What is given as an example can be compiled."""
    ir(path.read_text())


@given(strategies.contract_texts)
def test_every_representation_fits_the_schema(text: str) -> None:
    """Every compiled representation fits the schema and reads back as what it was."""
    for head in ("", 'task t v0\ngoal "g"\nuse *\n', 'task t v1\ngoal "g"\nuse *\n'):
        document = examine(head + text + "\nreturn 1")
        if all(found.severity != "error" for found in document.findings):
            made = compiled(document)
            data = msgspec.json.encode(made)
            SCHEMA.validate(json.loads(data))
            assert msgspec.json.decode(data, type=Program) == made


@pytest.mark.parametrize("key", ["type", "op", "extra", "step", "where"])
def test_the_schema_refuses_what_is_no_representation(key: str) -> None:
    """It is strict: an unknown key, step or operator, or a missing one, does not fit."""
    made = ir(POLICY)
    if key == "type":
        del made["type"]
    elif key == "op":
        made["steps"][0]["op"] = "run"
    elif key == "extra":
        made["extra"] = 1
    elif key == "step":
        made["steps"][0]["extra"] = 1
    else:
        made["permissions"]["conditional"][0]["where"][0]["operator"] = "=="
    with pytest.raises(ValidationError):
        SCHEMA.validate(made)
