"""What no gated call may touch is found in its arguments, however it is spelled there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.engine.protect import FOLDER, PROTECTED, SIGNATURES, protected_path
from strategies import json_values

POLICY = ".aex/policy.aex"


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "work" / ".aex" / "checkpoints").mkdir(parents=True)
    (tmp_path / "work" / "src").mkdir()
    return os.path.realpath(tmp_path / "work")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (".aex/policy.aex", POLICY),
        ("./.aex/policy.aex", POLICY),
        (".aex//policy.aex", POLICY),
        (".aex/./policy.aex", POLICY),
        ("src/../.aex/policy.aex", POLICY),
        ("missing/../.aex/policy.aex", POLICY),
        ("../work/.aex/policy.aex", POLICY),
        (".AEX/Policy.AEX", POLICY),
        ("\N{KELVIN SIGN}/../.aex/policy.aex", POLICY),
        (" .aex/policy.aex", POLICY),
        (".aex/policy.aex\n", POLICY),
        ("{root}/.aex/policy.aex", POLICY),
        ("/{root}/.aex/policy.aex", POLICY),
        ("//{root}/.aex/policy.aex", POLICY),
        ("{root}/src/../.aex/policy.aex", POLICY),
        ("file://{root}/.aex/policy.aex", POLICY),
        ("FILE://{root}/.aex/policy.aex", POLICY),
        ("file:{root}/.aex/policy.aex", POLICY),
        ("file://localhost{root}/.aex/policy.aex", POLICY),
        ("file://{root}/.aex/policy%2Eaex", POLICY),
        ("file://{root}/.aex/policy.aex%00.txt", POLICY),
        ("aex.policy.aex", "aex.policy.aex"),
        ("AEX.policy.aex", "aex.policy.aex"),
        ("aex.policy.json", "aex.policy.json"),
        ("./aex.policy.aex", "aex.policy.aex"),
        (".aex/adjourn.db", ".aex/adjourn.db"),
        (".aex/adjourn.db-wal", ".aex/adjourn.db"),
        (".aex/adjourn.db-shm", ".aex/adjourn.db"),
        (".aex/adjourn.db-journal", ".aex/adjourn.db"),
        (".aex/checkpoints", ".aex/checkpoints"),
        (".aex/checkpoints/", ".aex/checkpoints"),
        (".aex/checkpoints/x/audit.jsonl", ".aex/checkpoints"),
        (".aex/CHECKPOINT\N{LATIN SMALL LETTER LONG S}/x", ".aex/checkpoints"),
        (".aex", FOLDER),
        (".aex/", FOLDER),
        (".AEX", FOLDER),
        ("src/../.aex/.", FOLDER),
    ],
)
def test_protected_places(root: str, path: str, place: str) -> None:
    """Relative, absolute, with dots, in other case, as a URL, with blanks around it: it is the same place."""
    assert protected_path({"path": path.replace("{root}", root)}, root) == place


@pytest.mark.parametrize(
    "path",
    [
        "", "src/a.py", "a.py", ".", "..", "/", "/etc/passwd", "~", "~/x", "~nobody-of-that-name/x", ".aex/runs/a.aex",
        ".aex/policy.aex2", ".aex/adjourn.dbx", "src/.aex/policy.aex", "src/aex.policy.aex", "{root}x/.aex/policy.aex",
        "{root}", "{root}/src", "policy.aex", "adjourn.db", "https://example.org/.aex/policy.aex",
        "file:relative/.aex/policy.aex", "a\0b/.aex/policy.aex", "~\0/x", "line\n.aex/policy.aex", "x" * 5000,
        "x/" * 2000, "%2Eaex/policy.aex",
    ],
)  # fmt: skip
def test_other_places(root: str, path: str) -> None:
    """What lies elsewhere, or is no path at all, may be named."""
    assert protected_path({"path": path.replace("{root}", root)}, root) is None


@pytest.mark.parametrize(
    ("link", "target", "path", "place"),
    [
        ("notes", ".aex", "notes/policy.aex", POLICY),
        ("notes", ".aex", "notes", FOLDER),
        ("notes", ".aex/policy.aex", "notes", POLICY),
        ("notes", ".aex/adjourn.db", "notes", ".aex/adjourn.db"),
        ("src/up", "..", "src/up/.aex/policy.aex", POLICY),
        ("src/far", "{root}/.aex/checkpoints", "src/far/x/y", ".aex/checkpoints"),
        ("../l", "{root}/.aex", "../l/policy.aex", POLICY),
        ("../l", "{root}/.aex", "{outside}/l/policy.aex", POLICY),
        ("../l", "{root}/.aex/policy.aex", "{outside}/l", POLICY),
    ],
)
def test_links_are_followed(root: str, link: str, target: str, path: str, place: str) -> None:
    """A link is the place it leads to, be it in the workspace or outside, named from wherever."""
    names = {"root": root, "outside": os.path.dirname(root)}
    os.symlink(target.format(**names), os.path.join(root, link))
    assert protected_path({"path": path.format(**names)}, root) == place


def test_links_elsewhere(root: str) -> None:
    """A link to another place, one that leads nowhere and one that leads to itself protect nothing."""
    for link, target in (("a", "src"), ("b", "nowhere"), ("c", "c")):
        os.symlink(target, os.path.join(root, link))
        assert protected_path({"path": link}, root) is None
        assert protected_path({"path": f"{link}/x"}, root) is None


@pytest.mark.parametrize("key", ["cmd", "command", "script", "code", "diff", "patch", "Command", "PATCH"])
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("rm -f .aex/policy.aex", POLICY),
        ("cat x > ./.AEX/POLICY.aex\nls", POLICY),
        ("--- a/aex.policy.aex\n+++ b/aex.policy.aex\n", "aex.policy.aex"),
        ("sqlite3 .aex/adjourn.db 'delete from event'", ".aex/adjourn.db"),
        (["sh", "-c", "rm -r .aex/checkpoints"], ".aex/checkpoints"),
        ({"line": "ls"}, None),
        ("ls .aex", None),
        ("make test", None),
        ("x" * 100_000 + ".aex/policy.aex", POLICY),
    ],
)
def test_commands_and_patches(root: str, key: str, text: object, place: str | None) -> None:
    """In a command line or a patch the place is looked for anywhere in the text."""
    assert protected_path({key: text}, root) == place


def test_content_is_no_path(root: str) -> None:
    """What is written into a file may speak of the policy."""
    text = "Our policy is in .aex/policy.aex.\nRead it.\n"
    assert protected_path({"path": "README.md", "content": text}, root) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"files": [{"path": "a"}, {"path": ".aex/policy.aex"}]},
        {"files": {".aex/policy.aex": "use *"}},
        {"files": {"src/a.py": {"edits": [{"to": ".aex/policy.aex"}]}}},
        [[[".aex/policy.aex"]]],
        ".aex/policy.aex",
        {"a": {"b": {"c": {"d": [{"e": ".aex/policy.aex"}]}}}},
        {"from": ".aex/policy.aex", "to": "x"},
        {".aex/policy.aex": None},
    ],
)
def test_wherever_it_stands(root: str, arguments: object) -> None:
    """At any depth, in lists, and as the key of a map from path to content."""
    assert protected_path(arguments, root) == POLICY


def test_a_key_without_a_slash_is_a_path_too(root: str) -> None:
    """The policy in the workspace's top folder has none."""
    assert protected_path({"files": {"aex.policy.aex": "use *"}}, root) == "aex.policy.aex"
    assert protected_path({"files": {".aex": None}}, root) == FOLDER


@pytest.mark.parametrize("arguments", [None, 7, 1.5, True, [], {}, "", {"n": 1}, {"a.b": 1, "c": [None, {}]}])
def test_arguments_without_paths(root: str, arguments: object) -> None:
    """Any JSON may be arguments."""
    assert protected_path(arguments, root) is None


def test_deep_arguments(root: str) -> None:
    """Nesting costs no stack."""
    arguments: Any = ".aex/policy.aex"
    for _ in range(50_000):
        arguments = [arguments]
    assert protected_path(arguments, root) == POLICY


def test_further_places(root: str) -> None:
    """The store, when it is elsewhere in the workspace, with what belongs to it."""
    also = ("kept/My.db",)
    assert protected_path({"path": "kept/my.db"}, root, also) == "kept/My.db"
    assert protected_path({"path": f"{root}/kept/My.db-wal"}, root, also) == "kept/My.db"
    assert protected_path({"cmd": "rm kept/my.db"}, root, also) == "kept/My.db"
    assert protected_path({"path": "kept/other.db"}, root, also) is None


def test_a_workspace_at_the_top() -> None:
    """A container may work in `/`."""
    for place in PROTECTED:
        assert protected_path({"path": place}, "/") == place
        assert protected_path({"path": f"/{place}"}, "/") == place
    assert protected_path({"path": "/.aex"}, "/") == FOLDER
    assert protected_path({"path": "/etc/passwd"}, "/") is None


@given(json_values())
def test_nothing_makes_it_fail(arguments: object) -> None:
    """Whatever arguments are, there is an answer."""
    assert protected_path(arguments, "/nowhere/work") in (None, FOLDER, *PROTECTED)


@given(
    st.lists(st.sampled_from([".", "src/..", "missing/..", "src/./..", ""]), max_size=6),
    st.sampled_from(PROTECTED),
)
def test_detours_lead_to_the_same_place(steps: list[str], place: str) -> None:
    """However many detours a path takes through the workspace."""
    assert (
        protected_path({"path": "/".join([*(step or "." for step in steps), place])}, "/nowhere/work")
        == place
    )


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"path": "tasks/a.aex.signature.json"}, True),
        ({"path": "{root}/A.AEX.Signature.JSON"}, True),
        ({"cmd": "rm tasks/a.aex.signature.json"}, True),
        ({"path": "tasks/a.aex"}, False),
        ({"path": "signature.json"}, False),
        ({"path": "tasks/a.aex.signature.json/x"}, False),
        ({"path": "/elsewhere/a.aex.signature.json"}, False),
    ],
)
def test_an_ending_stands_for_every_file_of_the_workspace_that_has_it(
    root: str, arguments: dict[str, str], found: bool
) -> None:
    """Signature files are protected by their ending, where it is asked for."""
    given_ = {key: value.replace("{root}", root) for key, value in arguments.items()}
    assert protected_path(given_, root, [SIGNATURES]) == (SIGNATURES if found else None)
    assert protected_path(given_, root) is None
