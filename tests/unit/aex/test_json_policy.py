"""JSON policies: read strictly with every base, composed as published, scopes kept, and nothing permitted by an empty allow."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import Policy, Rule, json_policy
from adjourn.aex.json_policy import MAX_POLICIES, read_json_policy
from adjourn.aex.templates import SAMPLE_JSON_POLICY
from adjourn.findings import Finding

SCHEMA = Path(__file__).parents[3] / "spec" / "json-policy.schema.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    return root


def write(path: Path, policy: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(policy if isinstance(policy, str) else json.dumps(policy))
    return path


def _read(path: str, root: str, source: str = "") -> tuple[Policy, list[Finding]]:
    reading = read_json_policy(path, root, source)
    return reading.policy, reading.findings


def policy_of(root: Path, policy: Any) -> Policy:
    """The permissions of a policy in which nothing is wrong."""
    found, findings = _read(str(write(root / "p.json", policy)), str(root), "p.json")
    assert [finding.message for finding in findings if finding.severity == "error"] == []
    return found


def errors(root: Path, policy: Any) -> list[tuple[str, str, str]]:
    """Code, source and message of each error. With one, nothing is permitted."""
    found, findings = _read(str(write(root / "p.json", policy)), str(root), "p.json")
    bad = [finding for finding in findings if finding.severity == "error"]
    assert bad
    assert found == Policy()
    assert all(finding.help for finding in bad)
    return [(finding.code, finding.source, finding.message) for finding in bad]


def patterns(rules: Sequence[Rule]) -> list[str]:
    return [rule.pattern for rule in rules]


# --- one policy


def test_the_sample_says_what_it_permits(root: Path) -> None:
    """Each entry is a rule that knows its line; the budget is one, too."""
    policy = policy_of(root, SAMPLE_JSON_POLICY)
    assert policy.allow == (
        Rule("allow", "file.read", "p.json", 2),
        Rule("allow", "file.write", "p.json", 2),
        Rule("allow", "tests.run:npm test*", "p.json", 2),
    )
    assert policy.deny[0] == Rule("deny", "network.*", "p.json", 3)
    assert policy.confirm == (Rule("confirm", "file.write", "p.json", 4),)
    assert (policy.budget, policy.budget_rule) == (20, Rule("budget", "calls=20", "p.json", 5, amount=20))


@pytest.mark.parametrize("policy", [{}, {"allow": []}, {"deny": ["x"], "budget": {"calls": 5}}])
def test_an_empty_allow_permits_nothing(root: Path, policy: dict[str, Any]) -> None:
    """Missing or empty: no tool is allowed, and a warning says so."""
    found, findings = _read(str(write(root / "p.json", policy)), str(root))
    assert [(finding.code, finding.severity) for finding in findings] == [("AEX162", "warning")]
    assert found.judge("file.read").effect == "closed"


def test_scopes_stay_scopes(root: Path) -> None:
    """On allow, deny and confirm: neither is the tool allowed whole, nor denied or asked about whole."""
    policy = policy_of(
        root,
        {
            "allow": ["file.read:src/**", "file.write"],
            "deny": ["file.write:secrets/**"],
            "require_confirmation": ["file.write:docs/*"],
        },
    )

    def verdict(tool: str, path: str) -> tuple[str, bool]:
        found = policy.judge_call(tool, {}, [path])
        return found.effect, found.confirm is not None

    assert verdict("file.read", "src/a/b.py") == ("allow", False)
    assert verdict("file.read", "other.py") == ("closed", False)
    assert verdict("file.write", "secrets/key") == ("deny", False)
    assert verdict("file.write", "docs/x.md") == ("allow", True)
    assert verdict("file.write", "README.md") == ("allow", False)


@pytest.mark.parametrize(("calls", "budget"), [(0, 0), (7, 7), (7.9, 7), (1e3, 1000)])
def test_a_budget_is_whole_calls(root: Path, calls: float, budget: int) -> None:
    """A fractional budget is rounded down to whole calls."""
    assert policy_of(root, {"allow": ["*"], "budget": {"calls": calls}}).budget == budget


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "truncated"),
        ("{", "truncated"),
        ('{\n "allow": [,]\n}', "malformed"),
        ("[]", "`$` is a list, not an object"),
        ('{"alow": []}', "unknown member `alow`"),
        ('{"allow": "file.read"}', "$.allow"),
        ('{"allow": [1]}', "$.allow[0]"),
        ('{"deny": [""]}', "$.deny[0]"),
        ('{"deny": null}', "$.deny"),
        ('{"budget": 5}', "$.budget"),
        ('{"budget": {"calls": -1}}', "$.budget"),
        ('{"budget": {"calls": 1e300}}', "$.budget"),
        ('{"budget": {"calls": 9007199254740992}}', "$.budget"),
        ('{"budget": {"calls": true}}', "$.budget"),
        ('{"budget": {"calls": "5"}}', "$.budget"),
        ('{"budget": {"calls": 1e999}}', "$.budget"),
        ('{"budget": {"calls": NaN}}', "malformed"),
        ('{"extends": null}', "$.extends"),
        ('{"extends": {"allow": [], "more": 1}}', "$.extends"),
        ('{"deny": ["x"], "deny": []}', "`deny` is given twice"),
        ('{"extends": {"deny": ["x"], "\\u0064eny": []}}', "`deny` is given twice"),
        ('{"extends":' * 50_000, "recursion"),
        ("[" * 100_000, "`$` is a list, not an object"),
        (" " * 1_000_001, "more than 1,000,000 characters"),
    ],
)
def test_what_is_no_policy_is_refused(root: Path, text: str, message: str) -> None:
    """Not JSON, of another shape, or with a member twice; the message names the member."""
    ((code, source, said),) = errors(root, text)
    assert (code, source) == ("AEX160", "p.json")
    assert message in said


def test_malformed_json_has_a_place(root: Path) -> None:
    """Line and column of the byte that cannot be."""
    _, (finding,) = _read(str(write(root / "p.json", '{\n "deny": ["ä",]\n}')), str(root))
    assert (finding.span.line, finding.span.column) == (2, 15)


def test_a_pattern_that_names_nothing_is_an_error(root: Path) -> None:
    """In each list, with its place: a deny that never matches protects nobody."""
    policy = '{"allow": ["*"],\n "deny": [\n  "ok",\n  "net work"], "require_confirmation": ["*.x"]}'
    _, findings = _read(str(write(root / "p.json", policy)), str(root))
    spans = [(finding.span.line, finding.span.column, finding.span.length) for finding in findings]
    assert ([finding.code for finding in findings], spans) == (["AEX041", "AEX041"], [(4, 3, 10), (4, 41, 5)])
    errors(root, policy)


def test_a_budget_that_is_not_counted_is_a_warning(root: Path) -> None:
    """A budget of anything but calls is a warning, because only calls are counted."""
    path = write(root / "p.json", {"allow": ["*"], "budget": {"dollars": 5}})
    policy, findings = _read(str(path), str(root))
    assert (policy.budget, [finding.code for finding in findings]) == (None, ["AEX046"])


# --- bases


def test_composition_is_the_published_one(root: Path) -> None:
    """Bases first, lists united, each pattern once, the smaller budget of each key; a policy may widen its base."""
    write(
        root / "base.json", {"allow": ["a", "b"], "deny": ["x"], "require_confirmation": ["b"], "budget": {"calls": 5}}
    )
    policy = policy_of(root, {"extends": "base.json", "allow": ["b", "c"], "deny": ["y", "x"], "budget": {"calls": 9}})
    assert patterns(policy.allow) == ["a", "b", "c"]
    assert patterns(policy.deny) == ["x", "y"]
    assert patterns(policy.confirm) == ["b"]
    assert (policy.budget, str(policy.budget_rule)) == (5, "budget calls=5 (base.json:1)")
    assert [rule.source for rule in policy.allow] == ["base.json", "base.json", "p.json"]


def test_inline_bases_know_their_lines(root: Path) -> None:
    """A base that is written inside counts as one in a file, and its rules name the line in this file."""
    text = '{\n "allow": ["a"],\n "extends": {\n  "allow": ["b"],\n  "extends": {"deny": [\n "c"]}}}'
    policy = policy_of(root, text)
    assert [(rule.pattern, rule.line) for rule in (*policy.allow, *policy.deny)] == [("b", 4), ("a", 2), ("c", 6)]


def test_bases_are_relative_to_the_file_that_names_them(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the process stands; inline bases too."""
    write(root / "org" / "team" / "base.json", {"extends": {"extends": "../all.json"}, "allow": ["a"]})
    write(root / "org" / "all.json", {"deny": ["z"]})
    monkeypatch.chdir("/")
    policy = policy_of(root, {"extends": "org/team/base.json"})
    assert (policy.allow[0].source, policy.deny[0].source) == ("org/team/base.json", "org/all.json")


def test_the_text_for_the_record_says_all_of_it(root: Path) -> None:
    """One file: its very text. Several: one text with the bases inside, which means the same."""
    path = write(root / "p.json", ' {"allow": ["a"]}\n')
    assert read_json_policy(str(path), str(root)).text == ' {"allow": ["a"]}\n'
    write(root / "base.json", {"extends": {"deny": ["x"]}, "allow": ["b"], "budget": {"calls": 3}})
    whole = read_json_policy(str(write(path, {"extends": "base.json", "allow": ["a"]})), str(root)).text
    apart = policy_of(root, {"extends": "base.json", "allow": ["a"]})
    (root / "base.json").unlink()
    together = policy_of(root, whole)
    assert (patterns(together.allow), patterns(together.deny)) == (patterns(apart.allow), patterns(apart.deny))
    assert together.budget == apart.budget == 3


@pytest.mark.parametrize("loop", [["p.json"], ["./p.json"], ["a.json", "p.json"], ["a.json", "a.json"]])
def test_a_cycle_is_an_error(root: Path, loop: list[str]) -> None:
    """Of one file, of two, and of a base with itself."""
    write(root / "a.json", {"extends": loop[-1]})
    ((code, _, message),) = errors(root, {"extends": loop[0]})
    assert (code, "extends itself" in message) == ("AEX161", True)


def test_a_cycle_through_a_link_is_an_error(root: Path, tmp_path: Path) -> None:
    """Two names of one file are one file, also where a person may use links; in a workspace a link is an error by itself."""
    (root / "link.json").symlink_to("p.json")
    assert errors(root, {"extends": "link.json"})[0][0] == "AEX161"
    (tmp_path / "link.json").symlink_to("own.json")
    own = write(tmp_path / "own.json", {"extends": "link.json", "allow": ["*"]})
    _, findings = _read(str(own), str(root), "own.json")
    assert [found.code for found in findings] == ["AEX161"]


def test_each_base_is_validated(root: Path) -> None:
    """An error in a base is an error, named by its file."""
    for base, code in (('{"alow": []}', "AEX160"), ('{"deny": ["*.x"]}', "AEX041"), ("{", "AEX160")):
        write(root / "sub" / "base.json", base)
        ((found, source, _),) = errors(root, {"extends": "sub/base.json", "allow": ["*"]})
        assert (found, source) == (code, "sub/base.json")


def test_a_base_that_is_not_there_is_an_error(root: Path) -> None:
    """A missing base is an error, and so is a base that is a folder or a pipe."""
    (root / "folder.json").mkdir()
    for base in ("none.json", "folder.json", "."):
        assert errors(root, {"extends": base, "allow": ["*"]})[0][0] in ("AEX130", "AEX161")


def test_a_base_of_a_policy_in_the_workspace_stays_in_it(root: Path, tmp_path: Path) -> None:
    """A base outside the workspace is refused, whether named by dots, by an absolute path, or by a link to a file or folder."""
    write(tmp_path / "outside" / "base.json", {"allow": ["*"]})
    (root / "link.json").symlink_to(tmp_path / "outside" / "base.json")
    (root / "folder").symlink_to(tmp_path / "outside")
    for base in ("../outside/base.json", str(tmp_path / "outside" / "base.json"), "../work", "\0"):
        ((code, source, _),) = errors(root, {"extends": base, "deny": ["x"]})
        assert (code, source) == ("AEX161", "p.json")
    for base in ("link.json", "folder/base.json"):
        ((code, source, _),) = errors(root, {"extends": base, "deny": ["x"]})
        assert (code, source) == ("AEX130", base)


def test_an_absolute_base_is_the_persons_own_choice(root: Path, tmp_path: Path) -> None:
    """A policy outside the workspace names any. A relative one that it names stays in its folder."""
    outside = write(tmp_path / "outside" / "base.json", {"extends": "more.json", "allow": ["a"]})
    write(tmp_path / "outside" / "more.json", {"allow": ["b"]})
    own = str(write(tmp_path / "own.json", {"extends": str(outside)}))
    policy, findings = _read(own, str(root), own)
    assert (patterns(policy.allow), findings) == (["b", "a"], [])
    write(tmp_path / "above.json", {"allow": ["c"]})
    write(outside, {"extends": "../above.json"})
    _, (found,) = _read(own, str(root), own)
    assert (found.code, found.source) == ("AEX161", str(outside))


def test_a_policy_has_few_bases(root: Path) -> None:
    """Sixteen policies, in files, inline, or both; one more is an error."""

    def inline(depth: int) -> dict[str, Any]:
        return {"extends": inline(depth - 1)} if depth else {"allow": ["a"]}

    assert patterns(policy_of(root, inline(MAX_POLICIES - 1)).allow) == ["a"]
    assert errors(root, inline(MAX_POLICIES))[0][0] == "AEX161"
    for number in range(MAX_POLICIES):
        write(root / f"{number}.json", {"extends": f"{number + 1}.json"})
    write(root / f"{MAX_POLICIES}.json", {"allow": ["a"]})
    assert patterns(policy_of(root, {"extends": "2.json"}).allow) == ["a"]
    assert errors(root, {"extends": "1.json"})[0][0] == "AEX161"


def test_a_large_policy_takes_little_time(root: Path) -> None:
    """A file of a million characters: seconds would be felt at each start."""
    entries = [f"tool.t{number}" for number in range(55_000)]
    start = time.process_time()
    policy = policy_of(root, {"extends": {"allow": entries}})
    assert policy.allow[-1].pattern == "tool.t54999"
    assert time.process_time() - start < 5


# --- properties

NAMES = st.lists(st.sampled_from(["a", "b", "c.*", "d:src/**", "*"]), max_size=4)
LAYERS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "allow": NAMES,
            "deny": NAMES,
            "require_confirmation": NAMES,
            "budget": st.fixed_dictionaries({}, optional={"calls": st.integers(0, 9)}),
        },
    ),
    min_size=1,
    max_size=5,
)


@given(layers=LAYERS, inline=st.lists(st.booleans(), min_size=5, max_size=5))
def test_any_chain_composes_as_published(root: Path, layers: list[dict[str, Any]], inline: list[bool]) -> None:
    """Any chain of inline and file bases composes as published: unions in order, bases first, and the least budget."""
    base: dict[str, Any] | str | None = None
    for number, layer in enumerate(layers):
        whole = layer | ({} if base is None else {"extends": base})
        base = whole if inline[number] else write(root / f"b{number}.json", whole).name
    policy = policy_of(root, {"extends": base})
    for rules, key in (
        (policy.allow, "allow"), (policy.deny, "deny"), (policy.confirm, "require_confirmation"),
    ):  # fmt: skip
        assert patterns(rules) == list(dict.fromkeys(name for layer in layers for name in layer.get(key, [])))
    budgets = [layer["budget"]["calls"] for layer in layers if layer.get("budget")]
    assert policy.budget == min(budgets, default=None)


MEMBERS = ["extends", "allow", "deny", "require_confirmation", "budget", "calls"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
    max_leaves=12,
)


@given(value=JSON)
def test_schema_and_reader_agree(root: Path, value: Any) -> None:
    """What the schema refuses is refused, and what it takes is read, but for what only reading can tell."""
    path = write(root / "p.json", json.dumps(value))
    _, findings = _read(str(path), str(root))
    shape = any(finding.code == "AEX160" for finding in findings)
    valid = jsonschema.Draft202012Validator(json_policy.schema()).is_valid(value)
    assert valid != shape


@given(text=st.text(max_size=60) | st.text('{}[]",:\\ \nae', max_size=60))
def test_any_text_is_a_policy_or_has_findings(root: Path, text: str) -> None:
    """Reading any text gives a policy or findings and never crashes."""
    path = root / "p.json"
    path.write_text(text, "utf-8", errors="replace")
    policy, findings = _read(str(path), str(root))
    assert policy.allow or findings


# --- the schema


def test_the_schema_is_not_stale() -> None:
    """The schema file is what the types say now."""
    again = "run: python -m adjourn.aex.json_policy > spec/json-policy.schema.json"
    assert json.loads(SCHEMA.read_text("utf-8")) == json_policy.schema(), again


def test_the_schema_is_one_and_takes_the_sample() -> None:
    """The schema is valid for its draft and accepts the sample."""
    jsonschema.Draft202012Validator.check_schema(json_policy.schema())
    jsonschema.validate(json.loads(SAMPLE_JSON_POLICY), json_policy.schema())
