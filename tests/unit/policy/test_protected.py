"""What no gated call may touch is found in its arguments, however it is spelled there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.policy.protected import calls
from adjourn.policy.protected.places import FOLDER, PROTECTED, SIGNATURES, places_of
from support.cases import for_each
from support.strategies import json_values

POLICY = ".aex/policy.aex"


def protected_path(
    arguments: object, root: str, also: Sequence[str] = (), working_directory: str = "", **more: Any
) -> str | None:
    return calls.protected_path(arguments, places_of(root, tuple(also)), working_directory, **more)


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "work" / ".aex" / "checkpoints").mkdir(parents=True)
    (tmp_path / "work" / "src").mkdir()
    return os.path.realpath(tmp_path / "work")


@for_each(
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
        ("line\n.aex/policy.aex", POLICY),
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
        ("src/.aex/policy.aex", POLICY),
        ("src/deep/aex.policy.aex", "aex.policy.aex"),
        ("src/.AEX/adjourn.db", ".aex/adjourn.db"),
        ("src/.aex", FOLDER),
        ("file:relative/.aex/policy.aex", POLICY),
    ],
)
def test_protected_places(root: str, path: str, place: str) -> None:
    """Relative, absolute, with dots, in other case, as a URL, with blanks around it: it is the same place."""
    assert protected_path({"path": path.replace("{root}", root)}, root) == place


@for_each(
    "path",
    [
        "", "src/a.py", "a.py", ".", "..", "/", "/etc/passwd", "~", "~/x", "~nobody-of-that-name/x", ".aex/runs/a.aex",
        ".aex/policy.aex2", ".aex/adjourn.dbx", "src/.aex/runs/a.aex", "src/my.aex", "{root}x/.aex/policy.aex",
        "{root}", "{root}/src", "policy.aex", "adjourn.db", "https://example.org/.aex/policy.aex",
        "/elsewhere/aex.policy.json", "a\0b/.aex/policy.aex", "~\0/x", "line\n.aex/runs/a.aex", "x" * 5000,
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


@pytest.mark.parametrize(
    "path",
    [
        "src/l/../.aex/policy.aex",
        "{root}/src/l/../../.aex/policy.aex",
        "file://{root}/src/l/../../.aex/policy.aex",
        "file://{root}/src/l/%2e%2e/../.aex/policy.aex",
        "file://{root}/.aex%2Fx/../policy.aex",
        "file://{root}/.aex/policy.aex?x",
        "file://{root}/.aex/policy.aex#x",
        "file://{root}\\.aex\\policy.aex",
        "file://{root}/.aex/pol\ticy.aex",
        "file:/../.aex/policy.aex",
        "~/../.aex/policy.aex",
        " /../.aex/policy.aex",
        "a\n/../.aex/policy.aex",
        "a\n/../src/l/../../.aex/policy.aex",
        ".aex/policy.aex\0.txt",
        "./" * 2100 + ".aex/policy.aex",
        "/" * 5000 + "{root}/.aex/policy.aex",
        "x/../" * 1100 + ".aex/policy.aex",
        "src/l/../../../" * 600 + "inner/../policy.aex",
        "self/" * 1000 + ".aex/policy.aex",
        "self/" * 1000 + "inner/../policy.aex",
        "x/" * 3000 + "../" * 3000 + "inner/../policy.aex",
    ],
    ids=lambda path: path[:30] + path[-30:],
)
def test_both_ways_to_walk_back_are_judged(root: str, path: str) -> None:
    """`..` leads back from where a link leads, and from where it stands; neither length nor a line end hides it."""
    os.makedirs(f"{root}/src/deep/er")
    os.makedirs(f"{root}/.aex/runs")
    for link, target in (("src/l", "deep/er"), ("self", "."), ("inner", ".aex/runs")):
        os.symlink(target, f"{root}/{link}")
    found = protected_path({"path": path.replace("{root}", root)}, root)
    assert found == POLICY


@pytest.mark.parametrize(
    ("folder", "path", "place"),
    [
        ("src", "../.aex/policy.aex", POLICY),
        ("{root}/src", "../.aex/policy.aex", POLICY),
        ("{root}/.aex", "policy.aex", POLICY),
        ("{root}/.aex", "./adjourn.db", ".aex/adjourn.db"),
        ("{root}/.aex/checkpoints", "x", ".aex/checkpoints"),
        ("{root}/.aex/checkpoints", "Go back to the workspace", None),
        ("{root}/.aex", ".", FOLDER),
        ("{root}/.aex", "src", None),
        ("{root}/src", ".aex/policy.aex", POLICY),
        ("{root}/src", "policy.aex", None),
        ("{root}/up", "../.aex/policy.aex", POLICY),
        ("{root}/up", "x/../../work/.aex/policy.aex", POLICY),
        ("{root}/nowhere", "../.aex/policy.aex", POLICY),
        ("/", "{root}/.aex/policy.aex", POLICY),
        ("", ".aex/policy.aex", POLICY),
        ("\0", ".aex/policy.aex", POLICY),
    ],
)
def test_a_path_may_be_of_the_working_directory(root: str, folder: str, path: str, place: str | None) -> None:
    """Where the client's shell has gone, or in the workspace: protected if it is by either."""
    os.symlink("..", f"{root}/up")
    arguments = {"path": path.replace("{root}", root)}
    assert protected_path(arguments, root, working_directory=folder.replace("{root}", root)) == place


@pytest.mark.parametrize(
    "text",
    [
        "import a from '../../b/../c'\n" * 20_000,
        "# .aex\n\nsee /.aex/policy.aex and src/../.aex/policy.aex\nor //example.org/./x\n",
        ".aex/checkpoints/\nnode_modules/\n",
        "tasks:\n- tasks/a.aex.signature.json\n",
        "https://example.org/a//b/./c/../d\n" * 1000,
        "x" * 1_000_000,
        "x/" * 500_000,
    ],
    ids=lambda text: text[:30],
)
def test_long_content_is_no_path(root: str, text: str) -> None:
    """A text of many lines, or a long one, that speaks of places is let pass."""
    assert protected_path({"path": "README.md", "content": text}, root, [SIGNATURES]) is None


def test_what_cannot_be_walked_to_its_end_is_refused(root: str) -> None:
    """A path of more names than anybody writes might lead anywhere, and is not waited for."""
    assert protected_path({"path": "./" * 600_000}, root) == FOLDER


def test_links_elsewhere(root: str) -> None:
    """A link to another place, one that leads nowhere and one that leads to itself protect nothing."""
    for link, target in (("a", "src"), ("b", "nowhere"), ("c", "c")):
        os.symlink(target, os.path.join(root, link))
        assert protected_path({"path": link}, root) is None
        assert protected_path({"path": f"{link}/x"}, root) is None


@for_each("key", ["cmd", "command", "commands", "script", "code", "diff", "patch", "Command", "PATCH"])
@for_each(
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


@for_each(
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


@for_each("arguments", [None, 7, 1.5, True, [], {}, "", {"n": 1}, {"a.b": 1, "c": [None, {}]}])
def test_arguments_without_paths(root: str, arguments: object) -> None:
    """Any JSON is accepted as arguments."""
    assert protected_path(arguments, root) is None


def test_deep_arguments(root: str) -> None:
    """Deeply nested arguments do not overflow the stack."""
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
    """The workspace may be `/`, as in a container."""
    for place in PROTECTED:
        assert protected_path({"path": place}, "/") == place
        assert protected_path({"path": f"/{place}"}, "/") == place
    assert protected_path({"path": "/.aex"}, "/") == FOLDER
    assert protected_path({"path": "/etc/passwd"}, "/") is None


@given(json_values())
def test_nothing_makes_it_fail(arguments: object) -> None:
    """Any arguments get an answer."""
    assert protected_path(arguments, "/nowhere/work") in (None, FOLDER, *PROTECTED)


@given(st.lists(st.sampled_from([".", "src/..", "missing/..", "src/./..", ""]), max_size=6), st.sampled_from(PROTECTED))
def test_detours_lead_to_the_same_place(steps: list[str], place: str) -> None:
    """However many detours a path takes through the workspace."""
    assert protected_path({"path": "/".join([*(step or "." for step in steps), place])}, "/nowhere/work") == place


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


@pytest.fixture(scope="module")
def linked() -> Iterator[str]:
    """A workspace full of links, in whose folders everything protected is."""
    with tempfile.TemporaryDirectory() as folder:
        work = os.path.realpath(folder) + "/work"
        for name in ("a/b/c", ".aex/checkpoints", ".aex/runs"):
            os.makedirs(f"{work}/{name}")
        for link, target in (
            ("l", "a/b"), ("a/up", ".."), ("a/b/top", "{work}"), ("r", ".aex/runs"), ("s", "."), ("o", "o"), ("m", "l/../up"),
            ("../back", "work/a"), ("k", ".aex"), ("p", ".aex/policy.aex"),
        ):  # fmt: skip
            os.symlink(target.format(work=work), f"{work}/{link}")
        Path(work, ".aex", "policy.aex").touch()
        yield work


STEPS = st.sampled_from(
    [
        *("a", "b", "c", "l", "up", "top", "r", "s", "o", "m", "k", "p", "back", "work", "gone", "runs", "checkpoints"),
        *(".aex", ".aex", "policy.aex", "policy.aex", "..", "..", "..", ".", "", "a\n", " ", "~", "file:"),
    ]
)


@given(
    steps=st.lists(STEPS, min_size=1, max_size=9),
    start=st.sampled_from(["", "{work}/", "{work}/l/../", "./" * 2100, "s/" * 2100, "x/../" * 900, "gone\n/../", "//"]),
    cwd=st.sampled_from(["", "a", "l", ".aex", "a/b/top"]),
)
def test_however_a_protected_file_is_spelled(linked: str, steps: list[str], start: str, cwd: str) -> None:
    """What leads there by `os.path.normpath` or by `os.path.realpath`, from the workspace or the working directory, is protected."""
    path = start.format(work=linked) + "/".join(steps)
    policy = f"{linked}/{POLICY}"
    leads = set()
    for base in (linked, os.path.join(linked, cwd), os.path.realpath(os.path.join(linked, cwd))):
        full = os.path.join(base, path)
        leads |= {os.path.realpath(full), os.path.normpath(full), os.path.realpath(os.path.normpath(full))}
    found = protected_path({"path": path}, linked, working_directory=os.path.join(linked, cwd))
    if policy in leads:
        assert found is not None
    elif path == path.strip() and not path.startswith(("~", "file:")):
        assert found != POLICY or any(place.startswith(f"{policy}/") or place.endswith(f"/{POLICY}") for place in leads)
