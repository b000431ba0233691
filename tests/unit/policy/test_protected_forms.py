"""Calls other than commands (patches, SQL, a folder around it, from elsewhere): what is protected is not touched."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.policy.protected import calls
from adjourn.policy.protected.calls import protected_path
from adjourn.policy.protected.places import FOLDER, KEYS, SOCKET, ProtectedPlaces, places_of
from adjourn.policy.shell.syntax import UnreadError, parse
from support.campaign import scaled
from support.cases import for_each
from support.protected_places import CHECKPOINTS, POLICY, STORE, filled


def patch(name: str, other: str = "") -> str:
    return f"--- {name}\n+++ {other or name}\n@@ -1 +1 @@\n-a\n+b\n"


PATCHES = [
    patch("a/.aex/policy.aex", "b/.aex/policy.aex"),
    patch("a/.aex//policy.aex"),
    patch("./.aex/policy.aex"),
    patch(".aex/policy.aex"),
    patch("a/./.aex/../.aex/policy.aex"),
    patch("a/rules/policy.aex"),
    patch("/dev/null", "b/.aex/policy.aex"),
    patch("b/.aex/policy.aex", "/dev/null"),
    patch('"a/.aex/\\160olicy.aex"', '"b/.aex/\\160olicy.aex"'),
    patch("a/.aex/policy.aex\t2026-01-01 00:00:00"),
    patch("a/.aex/policy.aex 2026-01-01 00:00:00"),
    patch("a/.AEX/POLICY.aex"),
    patch("ROOT/.aex/policy.aex"),
    "  " + patch("a/.aex//policy.aex").replace("\n", "\r\n  "),
    "diff --git a/.aex//policy.aex b/.aex//policy.aex\ndeleted file mode 100644\n",
    "diff --git a/x b/.aex/policy.aex\nsimilarity index 100%\nrename from x\nrename to .aex//policy.aex\n",
    "diff --git a/x b/y\ncopy from x\ncopy to .aex//policy.aex\n",
    'diff --git "a/\\056aex/policy.aex" "b/\\056aex/policy.aex"\n',
    "Index: .aex//policy.aex\n===\n",
    "*** .aex//policy.aex\n--- x\n***************\n",
    "*** Begin Patch\n*** Update File: .aex//policy.aex\n@@\n-a\n+b\n*** End Patch",
    "*** Begin Patch\n*** Delete File: ./.aex/policy.aex\n*** End Patch",
    "*** Begin Patch\n*** Update File: x\n*** Move to: .aex//policy.aex\n*** End Patch",
    "*** Begin Patch\n***Add File:.aex//policy.aex\n+x\n*** End Patch",
]


@for_each("text", PATCHES)
@for_each(
    "arguments",
    [
        {"patch": "$"},
        {"diff": "$"},
        {"input": "$"},
        {"edits": ["$"]},
        {"changes": [{"diff": "$"}]},
        {"edit": "$", "path": "src/a.py"},
        {"whatever": "$"},
    ],
)
def test_a_patch_of_a_protected_file(places: ProtectedPlaces, text: str, arguments: dict[str, Any]) -> None:
    """Its headers name it, in every form and under every name that such an argument has; any argument of a tool that patches."""
    text = filled(text, places)

    def put(value: Any) -> Any:
        if isinstance(value, list):
            return [put(item) for item in value]
        if isinstance(value, dict):
            return {key: put(item) for key, item in value.items()}
        return value.replace("$", text)

    tool = "apply_patch" if "whatever" in arguments else "edit_file"
    assert protected_path(put(arguments), places, tool=tool) in (POLICY, FOLDER)


@pytest.mark.parametrize(
    "arguments",
    [
        {"patch": patch("a/README.md") + " see .aex/policy.aex\n-use .aex/policy.aex\n+use aex.policy.aex\n"},
        {"patch": patch("a/src/.aex/runs/a.aex", "b/src/.aex/runs/a.aex")},
        {"patch": patch("a/docs/aex.policy.aex.md")},
        {"path": "README.md", "edits": [{"oldText": "see .aex/policy.aex", "newText": patch("a/.aex/policy.aex")}]},
        {"path": "README.md", "content": patch("a/.aex/policy.aex")},
        {"input": "Explain .aex/policy.aex to me"},
        {"input": "one\ntwo .aex/policy.aex\n--- three\n"},
    ],
)
def test_a_patch_of_another_file_may_speak_of_it(places: ProtectedPlaces, arguments: dict[str, Any]) -> None:
    """Lines within hunks, and texts that are written, are no headers."""
    assert protected_path(arguments, places, tool="edit_file") is None


@for_each(
    ("sql", "place"),
    [
        ("ATTACH '.aex/adjourn.db' AS h", STORE),
        ("attach database './.aex//adjourn.db' as h; delete from h.event", STORE),
        ("ATTACH 'file:.aex/adjourn.db?mode=rw' AS h", STORE),
        ("ATTACH '.aex/' || 'adjourn.db' AS h", STORE),
        ('ATTACH ".aex/adjourn.db" AS h', STORE),
        ("VACUUM INTO '.aex/adjourn.db'", STORE),
        ("VACUUM main INTO 'rules/policy.aex'", POLICY),
        ("COPY t TO 'ROOT/.aex/policy.aex'", POLICY),
        ("copy (select 1) to '.aex/policy.aex' (format csv)", POLICY),
        ("SELECT 1 INTO OUTFILE '.aex/policy.aex'", POLICY),
        ("SELECT writefile('.aex/policy.aex', 'use *')", POLICY),
        ("EXPORT DATABASE '.aex/checkpoints/x'", CHECKPOINTS),
        (".output .aex/policy.aex\nselect 'use *';", POLICY),
        (".backup '.aex/adjourn.db'", STORE),
        ("SELECT readfile('~/.config/adjourn/keys/secret')", KEYS),
        ("SELECT pg_read_file('HOME_/.config/adjourn/keys/secret')", KEYS),
        ("SELECT * FROM files WHERE path = '.aex/policy.aex'", None),
        ("INSERT INTO notes VALUES ('see .aex/policy.aex')", None),
        ("INSERT INTO notes VALUES ('copy what .aex/policy.aex says')", None),
        ("ATTACH 'other.db' AS o; VACUUM INTO 'copy.db'", None),
        ("select 1", None),
    ],
)
@for_each("key", ["sql", "query", "statement", "SQL"])
def test_sql_that_opens_files(places: ProtectedPlaces, key: str, sql: str, place: str | None) -> None:
    """A statement that opens a file by its name may not name a protected one; any other may speak of it."""
    assert protected_path({key: filled(sql, places)}, places, tool="db.query") == place


@for_each(
    ("tool", "arguments", "place"),
    [
        ("delete_directory", {"path": "."}, FOLDER),
        ("remove_tree", {"target": "."}, FOLDER),
        ("move_file", {"source": "src/a.py", "target": "."}, None),
        ("delete_directory", {"path": ""}, FOLDER),
        ("delete_directory", {"path": "ROOT"}, FOLDER),
        ("fs.removeTree", {"dir": "src/.."}, FOLDER),
        ("mcp__fs__rmdir", {"target_dir": "/"}, FOLDER),
        ("move_file", {"source": ".", "destination": "../x"}, FOLDER),
        ("rename", {"from": "ROOT", "to": "x"}, FOLDER),
        ("clean", {"paths": ["build", ".."]}, FOLDER),
        ("purge_files", {"pattern": "**/*"}, FOLDER),
        ("delete_files", {"paths": [".aex/*"]}, STORE),
        ("delete_files", {"glob": ".ae?/policy.aex"}, POLICY),
        ("delete_directory", {"path": "~/.config"}, KEYS),
        ("delete_directory", {"path": "build"}, None),
        ("delete_files", {"pattern": "*.log"}, None),
        ("delete_file", {"path": "src/a.py", "root": "."}, None),
        ("delete_file", {"path": "src/a.py", "cwd": "ROOT", "reason": "."}, FOLDER),
        ("move_file", {"source": "src/a.py", "destination": "."}, None),
        ("remove_comments", {"path": "src/a.py", "text": "."}, None),
        ("list_directory", {"path": "."}, None),
        ("write_file", {"path": "src/x", "content": "."}, None),
        ("write_file", {"path": ".ae?/policy.aex"}, POLICY),
        ("format_files", {"paths": ["src/**/*.py", "*"]}, None),
        ("replace_text", {"path": "src/a.py", "pattern": ".*", "regex": ".a*"}, None),
        ("write_file", {"path": "../.aex/policy.aex", "cwd": "src"}, POLICY),
        ("write_file", {"path": "policy.aex", "baseDir": "rules"}, FOLDER),
        ("write_file", {"path": "policy.aex", "baseDir": "src"}, None),
    ],
)
def test_what_is_around_a_protected_place(
    places: ProtectedPlaces, tool: str, arguments: dict[str, Any], place: str | None
) -> None:
    """A tool that removes or moves, by its name, may not name a folder around one; others may."""
    assert protected_path(filled(arguments, places), places, tool=tool) == place


@for_each(
    ("arguments", "place"),
    [
        ({"path": "~/.config/adjourn/keys/secret"}, KEYS),
        ({"path": "HOME_/.config/adjourn/keys/secret"}, KEYS),
        ({"path": "../.config/adjourn/keys"}, KEYS),
        ({"path": "file://HOME_/.config/adjourn/keys/secret"}, KEYS),
        ({"uri": "file://HOME_/.config/adjourn/keys/%73ecret"}, KEYS),
        ({"path": "src/config"}, KEYS),
        ({"path": "src/k/secret"}, KEYS),
        ({"path": "src/k"}, KEYS),
        ({"path": "src/one-key"}, KEYS),
        ({"paths": ["README.md", {"deep": ["src/one-key"]}]}, KEYS),
        ({"path": "../.config/adjourn/keys/trusted/new.pub"}, KEYS),
        ({"path": " ~/.config/adjourn"}, KEYS),
        ({"path": "~/.cache/adjourn-hook"}, SOCKET),
        ({"query": "x", "command": "cat ~/.config/adjourn/keys/secret"}, KEYS),
        ({"path": "README.md", "output": ".aex/policy.aex"}, POLICY),
        ({"path": "README.md", "saveTo": "rules/adjourn.db"}, STORE),
        ({"path": ".aex/policy.aex"}, None),
        ({"path": "rules/adjourn.db"}, None),
        ({"paths": [".aex"]}, None),
        ({"path": "."}, None),
        ({"path": "~"}, None),
        ({"path": "~/.config"}, None),
        ({"pattern": "keys/secret", "path": "src"}, None),
        ({"path": "nowhere/secret"}, None),
        ({"text": "line\n~/.config/adjourn/keys/secret\n"}, None),
        ({"path": "README.md", "output": "found.txt"}, None),
    ],
)
def test_what_only_reads_may_read_all_but_the_keys(
    places: ProtectedPlaces, arguments: dict[str, Any], place: str | None
) -> None:
    """The policy and the history are no secrets; keys are, wherever a link or a URL leads from."""
    assert protected_path(filled(arguments, places), places, tool="read_file", reads=True) == place


def test_keys_that_are_made_later_are_found(places: ProtectedPlaces, tmp_path: Path) -> None:
    """A link that stood there before the key leads to it all the same."""
    (tmp_path / "home/work/later").symlink_to(tmp_path / "home/.config/adjourn/keys/other.key")
    assert protected_path({"path": "README.md"}, places, reads=True) is None
    (tmp_path / "home/.config/adjourn/keys/other.key").write_text("x")
    assert protected_path({"path": "later"}, places, reads=True) == KEYS


def test_other_folders_for_keys(places: ProtectedPlaces, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are where `ADJOURN_CONFIG` or `XDG_CONFIG_HOME` says; around a workspace only the keys themselves are closed."""
    for folder in ("xdg/adjourn/keys", "keys"):
        os.makedirs(f"{places.root}/{folder}")
        Path(places.root, folder, "secret").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", os.path.join(places.root, "xdg"))
    moved = places_of(places.root)
    assert protected_path({"path": "xdg/adjourn/keys/secret"}, moved, reads=True) == KEYS
    assert protected_path({"path": "xdg/adjourn/x"}, moved) == KEYS
    monkeypatch.setenv("ADJOURN_CONFIG", places.root)
    moved = places_of(places.root)
    assert protected_path({"path": "keys/secret"}, moved, reads=True) == KEYS
    assert protected_path({"path": "heads/x"}, moved) == KEYS
    assert protected_path({"path": "/nobody/.config/adjourn/settings.toml"}, moved) == KEYS
    for of_the_pin in ("keys/pin", "heads/pin"):
        assert protected_path({"path": f"/nobody/.config/adjourn/{of_the_pin}"}, moved, reads=True) == KEYS
    assert protected_path({"path": "src/a.py"}, moved) is None


@pytest.mark.timeout(100)
@for_each(
    "piece",
    [
        "{,",
        "${",
        "$'",
        "[",
        "'",
        '"',
        "`",
        "a b ",
        "<<E\n",
        "x=$x ",
        "{a,b}",
        "--- ",
        " \t",
        "$(",
        "* ",
        "|",
        "\\",
        "[a",
        "'||'",
        ". ",
    ],
)
@for_each("begin", ["rm ", "find . "])
def test_no_text_is_judged_for_long(places: ProtectedPlaces, begin: str, piece: str) -> None:
    """Every reading of a command, of SQL and of a patch takes time in proportion to its length."""
    text = begin + piece * (scaled(200_000) // len(piece))
    protected_path({"command": text, "sql": text, "patch": text, "input": text}, places, tool="delete_file")


PIECES = st.sampled_from(
    [
        *"ab.ex/ '\"\\$(){}`;|&<>\n*?[]#~=!-",
        "rm ",
        "<<E\n",
        "\nE\n",
        ".aex",
        "$(",
        "cd ",
        "find ",
        "git clean -fd",
        "xargs ",
        "\0",
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_is_judged(text: str) -> None:
    """Any command text is judged, and soon."""
    with suppress(UnreadError, RecursionError):
        parse(text)
    protected_path({"command": text, "sql": text, "patch": text, "input": text}, places_of("/nowhere/work"), tool="rm")


_NAMES = st.sampled_from(
    (
        "a",
        "folder",
        "link",
        "out",
        "policy.aex",
        ".aex",
        ".AEX",
        "store",
        "adjourn.db",
        ".",
        "..",
        "",
        "ke*",
        "a b",
        "no",
        ".mcp.json",
    )
)
_TEXTS = st.one_of(
    st.lists(_NAMES, min_size=1, max_size=4).map("/".join),
    st.lists(_NAMES, min_size=1, max_size=3).map(lambda names: "ROOT/" + "/".join(names)),
    st.sampled_from(
        ("See .aex/policy.aex, then write.", "file:.aex/policy.aex", "~/x", " a", "a\n.aex/policy.aex", "a\n/../.aex")
    ),
)
_KEYS = st.sampled_from(
    ("path", "file", "text", "content", "title", "cwd", "pattern", "query", "note", "destination", "x")
)


@given(
    arguments=st.dictionaries(_KEYS, _TEXTS, min_size=1, max_size=3),
    tool=st.sampled_from(("notes.set", "fs.write_file", "mark")),
)
def test_short_way_agrees_with_the_search(linked: Path, arguments: dict[str, str], tool: str) -> None:
    """What is passed without a search is what the search passes: links, folders and other spellings included."""
    places = places_of(str(linked))
    texts = calls._texts({key: text.replace("ROOT", str(linked)) for key, text in arguments.items()})
    if calls._names_plain_places(texts, places, calls._traits(tool)):
        assert calls._Search(places, "", tool, reads=False).found(texts) is None


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with links to what is protected."""
    root = tmp_path_factory.mktemp("links").resolve()
    (root / ".aex").mkdir()
    (root / ".aex/policy.aex").write_text("")
    (root / "folder").mkdir()
    (root / "folder/a").write_text("")
    (root / "link").symlink_to(".aex")
    (root / "folder/out").symlink_to("../.aex/policy.aex")
    return root
