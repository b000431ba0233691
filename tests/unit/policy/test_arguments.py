"""The target of a call follows from its arguments, and rules with scopes hold what is really there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unicodedata import normalize
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import Policy, from_text
from adjourn.policy.calls import MAX_PATHS, judge, paths_of
from adjourn.policy.protected.words import ambiguous
from support.cases import for_each
from support.policies import policy_of
from support.strategies import json_values

NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/~*?[{\0"), min_size=1, max_size=8
).filter(lambda name: name not in (".", "..") and name == name.strip() and not name.lower().startswith("file:"))


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    """A workspace with links to a folder in it, out of it, and back into it."""
    with tempfile.TemporaryDirectory() as folder:
        work = os.path.realpath(folder) + "/work"
        for name in ("src/deep", "secrets", "docs"):
            os.makedirs(f"{work}/{name}")
        Path(work, "src", "a.py").touch()
        os.makedirs(f"{work}/../elsewhere")
        for link, target in (
            ("src/hidden", "../secrets"),
            ("out", "../elsewhere"),
            ("../back", "work/src"),
            ("file-link", "secrets/key"),
        ):
            os.symlink(target, f"{work}/{link}")
        yield work


def policy(*lines: str) -> Policy:
    found, findings = from_text("\n".join(["policy p v0", 'goal "g"', *lines, ""]), "p.aex")
    assert not [finding for finding in findings if finding.severity == "error"]
    return found


@for_each(
    ("arguments", "expected"),
    [
        ({"path": "src/a.py"}, ["src/a.py"]),
        ({"path": "./src//deep/../a.py"}, ["src/a.py"]),
        ({"path": "src/deep/"}, ["src/deep"]),
        ({"path": "."}, ["."]),
        ({"path": ""}, ["."]),
        ({"path": "{root}"}, ["."]),
        ({"path": "{root}/src/a.py"}, ["src/a.py"]),
        ({"file_path": "{root}x/a"}, ["{root}x/a"]),
        ({"path": "../work/src"}, ["src"]),
        ({"path": "../elsewhere/a"}, ["{up}/elsewhere/a"]),
        ({"path": "/etc/passwd"}, ["/etc/passwd"]),
        ({"path": "src/hidden/key"}, ["secrets/key"]),
        ({"path": "src/hidden/../a"}, ["a", "src/a"]),
        ({"path": "file://{root}/src/hidden/../a"}, ["a", "src/a", "file:{root}/src/a"]),
        ({"path": "~/../a"}, ["{home}/../a", "a"]),
        ({"document": "a\n/../../y"}, ["{up}/y"]),
        ({"document": "import a from '/../x'\nimport b\n"}, []),
        ({"path": "src/*/../../x"}, []),
        ({"path": "src/[id]/../x"}, []),
        ({"path": "out/a"}, ["{up}/elsewhere/a"]),
        ({"path": "file-link"}, ["secrets/key"]),
        ({"path": "../back/a.py"}, ["src/a.py"]),
        ({"path": "file://{root}/src/a%2Epy"}, ["src/a.py"]),
        ({"uri": "FILE:{root}/src/a.py"}, ["src/a.py"]),
        ({"uri": "https://example.org/a"}, []),
        ({"path": "src/*.py"}, ["src"]),
        ({"path": "**/key"}, ["."]),
        ({"path": " src"}, ["src", " src"]),
        ({"path": "~"}, ["{home}", "~"]),
        ({"paths": ["a", "b"]}, ["a", "b"]),
        ({"files": [{"path": "a"}, {"path": "b"}]}, ["a", "b"]),
        ({"writes": {"a": "text", "b": {"contents": "text"}}}, ["a", "b"]),
        ({"writes": [{"path": "a", "contents": "/etc/passwd"}]}, ["a"]),
        ({"source": "a", "destination": "b", "notebook_path": "c", "cwd": "d", "repoPath": "e"}, [*"abcde"]),
        ({"from": "a.txt", "to": "b/c"}, ["a.txt", "b/c"]),
        ({"from": "now", "to": "later"}, []),
        ({"document": "/etc/passwd"}, ["/etc/passwd"]),
        ({"document": "x/../../y"}, ["{up}/y"]),
        ({"deep": {"er": [{"filename": "a"}]}}, ["a"]),
        ({"content": "/etc/passwd", "description": "../x", "pattern": "/api/"}, []),
        ({"path": 5}, []),
        ({"path": "a\0b"}, []),
        ({"path": "a", "target": "\0"}, []),
        ({"path": "a", "file": "x" * 5000}, []),
        ({"path": "a", "diff": "--- a/b\n+++ b/b\n"}, []),
        ({"paths": [str(number) for number in range(MAX_PATHS + 1)]}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_the_places_of_a_call(root: str, arguments: dict[str, Any], expected: list[str]) -> None:
    """By the usual keys, at any depth, resolved; none where it is unknown."""
    names = {
        "{home}/..": os.path.dirname(os.path.realpath(os.path.expanduser("~"))).rstrip("/"),
        "{root}": root,
        "{up}": os.path.dirname(root),
        "{home}": os.path.realpath(os.path.expanduser("~")),
    }

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            for name, text in names.items():
                value = value.replace(name, text)
            return value
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        return [fill(item) for item in value] if isinstance(value, list) else value

    assert sorted(paths_of(fill(arguments), root)) == sorted(fill(expected))


def test_relative_paths_are_of_the_working_directory(root: str) -> None:
    """Where the client's shell has gone, its relative paths begin there."""
    assert paths_of({"path": "a.py"}, root, f"{root}/src") == ("src/a.py",)
    assert paths_of({"path": "../secrets"}, root, f"{root}/src") == ("secrets",)


def test_dots_in_a_name_of_a_url_lead_nowhere_else(root: str) -> None:
    """Only `..` as a whole part of a path leads up."""
    assert paths_of({"path": f"file://{root}/new/0.."}, root) == ("new/0..",)
    assert paths_of({"path": f"file://{root}/new/..a/b"}, root) == ("new/..a/b",)
    assert len(paths_of({"path": f"file://{root}/new/../b"}, root)) > 1


@given(parts=st.lists(NAMES, min_size=1, max_size=4), data=st.data())
def test_every_spelling_is_the_same_place(root: str, parts: list[str], data: st.DataObject) -> None:
    """Dots, doubled slashes, an absolute path, a URL and composed letters change nothing."""
    path = "new/" + "/".join(parts)
    expected = (normalize("NFC", path),)
    detour = data.draw(st.sampled_from(["./", "x/../", "src/../", "/"]))
    at = data.draw(st.integers(0, len(parts)))
    steps = ["new", *parts]
    spelled = [
        path,
        "/".join(steps[: at + 1]) + "/" + detour.lstrip("/") + "/".join(steps[at + 1 :]),
        f"{root}/{path}",
        f"//{root}//{path}/",
        "file://" + quote(f"{root}/{path}"),
        path + "/",
    ]
    for one in spelled:
        assert paths_of({"path": one}, root) == expected, one


@given(ups=st.integers(1, 30), rest=st.lists(NAMES, max_size=3))
def test_nothing_climbs_out_into_a_scope(root: str, ups: int, rest: list[str]) -> None:
    """However a path leaves the workspace, no scope of an allow holds it, and not `**` either."""
    rules = policy("allow file.read:**, file.read:*, file.read:/**")
    path = "/".join(["src", "deep", *[".."] * (ups + 2), *rest])
    real = os.path.realpath(f"{root}/{path}")
    verdict = judge(rules, "file.read", {"path": path}, root)
    assert (verdict.effect == "allow") == (real.startswith(root + "/"))


@given(json_values().filter(lambda value: isinstance(value, dict)))
def test_any_arguments_have_a_verdict(root: str, arguments: dict[str, Any]) -> None:
    """Odd arguments neither stop the judgement nor are they allowed by a scope they are not in."""
    rules = policy("allow file.write:nowhere-at-all/**")
    assert judge(rules, "file.write", arguments, root).effect == "closed"


SCOPED = [
    "use file.read:src/**, file.list:*, docs.search:docs/**, file.write",
    "use shell.exec:git *, shell.exec:ls, tests.run:pytest*, terminal.run:make *",
    "deny file.write:secrets/**, shell.exec:* --force*, file.write:**/*.pem",
]


@for_each(
    ("tool", "arguments", "effect"),
    [
        ("file.read", {"path": "src/a.py"}, "allow"),
        ("file.read", {"path": "SRC/a.py"}, "closed"),
        ("file.read", {"path": "src"}, "allow"),
        ("file.read", {"path": "src/*.py"}, "allow"),
        ("file.read", {"path": "."}, "closed"),
        ("file.read", {"paths": ["src/a.py", "docs/x"]}, "closed"),
        ("file.read", {"path": "src/hidden/key"}, "closed"),
        ("file.read", {"path": "out/x"}, "closed"),
        ("file.read", {"path": "/etc/passwd"}, "closed"),
        ("file.read", {}, "closed"),
        ("file.read", {"path": "src/a.py", "document": "/etc/passwd"}, "closed"),
        ("file.read", {"path": "src/a.py", "command": "x"}, "closed"),
        ("file.list", {"path": "new"}, "allow"),
        ("file.list", {"path": "docs"}, "closed"),  # what is beneath is not in `*`
        ("file.write", {"path": "docs/a"}, "allow"),
        ("file.write", {"path": "secrets/key"}, "deny"),
        ("file.write", {"path": "SECRETS/key"}, "deny"),
        ("file.write", {"path": "src/hidden/key"}, "deny"),
        ("file.write", {"path": "secrets"}, "deny"),
        ("file.write", {"path": "."}, "deny"),
        ("file.write", {"path": "/"}, "deny"),
        ("file.write", {"path": "docs"}, "deny"),  # a certificate may be in it
        ("file.write", {"path": "docs/k.pem"}, "deny"),
        ("file.write", {"path": "/srv/k.pem"}, "deny"),
        ("file.write", {"path": "/srv/x"}, "allow"),
        ("file.write", {"path": "*/key"}, "deny"),
        ("file.write", {"path": "docs/a", "diff": "+++ b/secrets/key"}, "deny"),
        ("file.write", {}, "deny"),
        ("shell.exec", {"command": "git status", "description": "/x", "cwd": "/tmp"}, "allow"),
        ("shell.exec", {"command": ["git", "status"]}, "allow"),
        ("shell.exec", {"command": "git add a && git commit"}, "allow"),
        ("shell.exec", {"command": "git status | ls"}, "allow"),
        ("shell.exec", {"command": "git status; rm -r x"}, "closed"),
        ("shell.exec", {"command": "git log $(rm x)"}, "closed"),
        ("shell.exec", {"command": "git log > x"}, "closed"),
        ("shell.exec", {"command": "git log\nrm x"}, "closed"),
        ("shell.exec", {"command": "git `rm x`"}, "closed"),
        ("shell.exec", {"command": "ls; git push --FORCE origin"}, "deny"),
        ("shell.exec", {"command": ["git", 5]}, "deny"),
        ("shell.exec", {}, "deny"),
        ("tests.run", {"cmd": "pytest -q"}, "allow"),
        ("tests.run", {"cmd": "rm x"}, "closed"),
        ("tests.run", {}, "closed"),
        ("terminal.run", {"command": "make all"}, "allow"),
        ("terminal.run", {"command": "make all", "cwd": "src"}, "closed"),
        ("docs.search", {"path": "docs", "pattern": "/x/"}, "allow"),
        ("docs.search", {"query": "x"}, "closed"),
    ],
)
def test_verdicts(root: str, tool: str, arguments: dict[str, Any], effect: str) -> None:
    """Allows hold every place and command, denies any; what is not known is refused."""
    assert judge(policy(*SCOPED), tool, arguments, root).effect == effect


@pytest.mark.parametrize(
    ("path", "effect"),
    [
        ("docs/latest/x", "allow"),
        ("docs/latest/../x", "allow"),  # docs/v1/x, or docs/x
        ("docs/latest/../../x", "closed"),  # docs/x, or x
        ("docs/latest/../../secrets/x", "deny"),  # docs/secrets/x, or secrets/x
        ("down/../x", "closed"),  # docs/v1/x, or x
        ("docs/out/../x", "closed"),
        ("docs/*/../../x", "deny"),  # nobody knows
    ],
)
def test_a_scope_holds_both_ways_to_walk_back(tmp_path: Path, path: str, effect: str) -> None:
    """From behind a link `..` leads to two places: an allow has to hold both, a deny applies to either."""
    work = os.path.realpath(tmp_path) + "/work"
    os.makedirs(f"{work}/docs/v1/api")
    for link, target in (("docs/latest", "v1/api"), ("down", "docs/v1/api"), ("docs/out", "../..")):
        os.symlink(target, f"{work}/{link}")
    rules = policy("allow file.read:docs/**", "deny file.read:secrets/**")
    assert judge(rules, "file.read", {"path": path}, work).effect == effect
    assert judge(rules, "file.read", {"path": f"{work}/{path}"}, work).effect == effect


def test_letters_that_look_alike(root: str) -> None:
    """A scope with an accent holds both ways to write it."""
    rules = policy("use file.read", f"deny file.read:{normalize('NFC', 'café')}/**")
    for form in ("NFC", "NFD"):
        path = normalize(form, "café/x")
        assert judge(rules, "file.read", {"path": path}, root).effect == "deny"


def test_without_scopes_nothing_is_looked_at(root: str) -> None:
    """Where no rule wants to know, the arguments are not even walked."""
    assert judge(policy("use file.read"), "file.read", {"path": object()}, root).effect == "allow"


READING = policy_of(
    "allow t where order.amount <= 10", "deny t where lines.sku is 1", "allow o", "once o by key", "allow u", version="v1"
)  # fmt: skip


@for_each(
    ("tool", "arguments", "keys"),
    [
        ("t", {"order": {"amount": 1, "Amount": 1000}}, ("amount", "Amount")),
        ("t", {"order": {"amount": 1}, "ORDER": {"amount": 1000}}, ("order", "ORDER")),
        ("t", {"Order": {"AMOUNT": 1, "amount": 1000}}, ("AMOUNT", "amount")),
        ("t", {"order": [[{"amount": 1, "amount\0x": 1000}]]}, ("amount", "amount\0x")),
        ("t", {"lines": [{"sku": 2}, {"sku": 2, "SKU": 1}]}, ("sku", "SKU")),
        ("o", {"key": "a", "Key": "b"}, ("key", "Key")),
        ("u", {"path": "a", "PATH": "/etc/passwd"}, ("path", "PATH")),
        ("u", {"command": "ls", "Command": "rm -rf /"}, ("command", "Command")),
        ("u", {"file_path": "a", "File_Path": "b"}, ("file_path", "File_Path")),
        ("u", {"cwd": "a", "CWD": "b"}, ("cwd", "CWD")),
        ("u", {"patch": "a", "Patch": "b"}, ("patch", "Patch")),
    ],
)
def test_keys_that_are_one_to_some_reader_are_ambiguous_where_a_rule_looks(
    tool: str, arguments: dict[str, Any], keys: tuple[str, str]
) -> None:
    """A condition, a `once` rule and the search for paths examine one of two keys; the server may act on the other."""
    assert ambiguous(READING, tool, arguments) == keys


@for_each(
    ("tool", "arguments"),
    [
        ("u", {"env": {"HTTP_PROXY": "a", "http_proxy": "b"}}),
        ("u", {"env": {"PATH": "/bin", "path": "x"}, "path": "a"}),
        ("u", {"A": 1, "a": 2, "key": 1, "KEY": 2, "order": 1, "Order": 2}),
        ("u", {"text": "a", "Text": "b"}),
        ("t", {"document": {"amount": 1, "Amount": 2, "order": 1, "ORDER": 2}, "amount": 1, "AMOUNT": 2}),
        ("t", {"order": {"other": {"amount": 1, "Amount": 2}}, "lines": [{"n": {"sku": 1, "SKU": 2}}]}),
        ("o", {"headers": {"Key": "a", "key": "b"}, "key": "a"}),
        ("other", {"amount": 1, "Amount": 2}),
    ],
)
def test_alike_keys_of_data_are_no_matter(tool: str, arguments: dict[str, Any]) -> None:
    """An environment, headers or a document may have keys that differ in case."""
    assert ambiguous(READING, tool, arguments) is None
