"""A tool that only reads returns no key, whatever the spelling of its arguments; ordinary calls pass."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from time import process_time
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.policy.protected.calls import protected_path
from adjourn.policy.protected.places import FOLDER, KEYS, SOCKET, ProtectedPlaces, places_of
from support.campaign import scaled, scaled_seconds
from support.cases import for_each
from support.protected_places import filled

PRIVATE = (KEYS, SOCKET)
BELOW = ".config/adjourn/keys/secret"


def percent(text: str) -> str:
    """Every character of a text as a URL may have it."""
    return "".join(f"%{byte:02x}" for byte in text.encode())


def escapes(text: str) -> str:
    """Every character of a text as JSON may have it."""
    return "".join(f"\\u{ord(character):04x}" for character in text)


def codes(text: str) -> str:
    return ",".join(str(ord(character)) for character in text)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda home: f"{home}/{BELOW}",
    "tilde": lambda _: f"~/{BELOW}",
    "variable": lambda _: f"$HOME/{BELOW}",
    "variable in braces": lambda _: f"${{HOME}}/{BELOW}",
    "variable of an editor": lambda _: f"${{env:HOME}}/{BELOW}",
    "home of an editor": lambda _: f"${{userHome}}/{BELOW}",
    "variable of a shell elsewhere": lambda _: f"$env:HOME/{BELOW}",
    "variable between percents": lambda _: f"%HOME%/{BELOW}",
    "backslashes": lambda home: f"{home}/{BELOW}".replace("/", "\\"),
    "detour": lambda home: f"{home}/./.config//x/../adjourn/keys/secret",
    "missing folder": lambda home: f"{home}/nowhere/../{BELOW}",
    "up": lambda _: f"../{BELOW}",
    "the root of the process": lambda home: f"/proc/self/root{home}/{BELOW}",
    "the root of a thread": lambda home: f"/proc/thread-self/root{home}/{BELOW}",
    "slashes": lambda home: f"///{home}/{BELOW}",
    "dots beyond any path": lambda home: f"{home}/{'./' * 2100}{BELOW}",
    "link": lambda _: "src/config/keys/secret",
    "link to the folder": lambda _: "src/k",
    "link to the key": lambda _: "src/one-key",
    "behind a link and back": lambda _: "src/k/../keys/secret",
    "zero byte": lambda home: f"{home}/{BELOW}\0.txt",
    "blanks": lambda home: f"  {home}/{BELOW}\n",
    "quotes": lambda home: f"'{home}/{BELOW}'",
    "backticks": lambda home: f"`{home}/{BELOW}`",
    "angle brackets": lambda home: f"<{home}/{BELOW}>",
    "at": lambda home: f"@{home}/{BELOW}",
    "file URL": lambda home: f"file://{home}/{BELOW}",
    "file URL of one slash": lambda home: f"file:{home}/{BELOW}",
    "file URL of two slashes": lambda home: f"file:/{home}/{BELOW}",
    "file URL without a root": lambda home: f"file://{home[1:]}/{BELOW}",
    "file URL of a host": lambda home: f"FILE://localhost{home}/{BELOW}?x#L1",
    "file URL of percents": lambda home: f"file://{percent(f'{home}/{BELOW}')}",
    "file URL of percents twice": lambda home: f"file://{quote(percent(f'{home}/{BELOW}'))}",
    "address of an editor": lambda home: f"vscode://file{home}/{BELOW}:1:1",
    "address of an editor elsewhere": lambda home: f"vscode-remote://ssh-remote+h{home}/{BELOW}",
    "address of git": lambda home: f"git://x?ref=HEAD&file={quote(f'{home}/{BELOW}', safe='')}",
    "address of git in an editor": lambda home: f"git:/x?{quote(json.dumps({'path': f'{home}/{BELOW}'}))}",
    "address in an address": lambda home: f"view-source:jar:file:{home}/{BELOW}!/x",
    "address of a server's own": lambda home: f"resource://local{home}/{BELOW}",
    "question mark": lambda home: f"{home}/.config/adjourn/k?ys/secret",
    "stars": lambda home: f"{home}/.conf*/adj*/*/s*",
    "stars under a tilde": lambda _: "~/.conf*/adj*/keys/*",
    "stars up": lambda _: "../.c*/adjourn/keys/*",
    "star for the folder": lambda home: f"{home}/.config/adj*",
    "any depth": lambda home: f"{home}/**/secret",
    "anything": lambda home: f"{home}/.config/**",
    "class": lambda home: f"{home}/.config/adjourn/[j-l]eys/secret",
    "negated class": lambda home: f"{home}/.config/adjourn/[^x]eys/secret",
    "named class": lambda home: f"{home}/.config/adjourn/[[:alpha:]]eys/secret",
    "braces": lambda home: f"{home}/{{.config/adjourn,x}}/keys/{{a,s{{e,x}}cret}}",
    "group": lambda home: f"{home}/.config/adjourn/@(keys|x)/secret",
    "pattern behind a link": lambda _: "src/config/k*/secret",
    "pattern in a URL": lambda home: f"file://{home}/.conf*/adjourn/keys/*",
    "escape in a pattern": lambda home: f"{home}/.config/adj\\ourn/k*/secret",
    "commas": lambda home: f"README.md,{home}/{BELOW}",
    "commas and blanks": lambda _: f"README.md, ~/{BELOW}, src/a.py",
    "semicolons": lambda home: f"README.md;{home}/{BELOW}",
    "colons": lambda home: f"README.md:{home}/{BELOW}:12",
    "lines": lambda home: f"README.md\r\n{home}/{BELOW}\r\n",
    "words": lambda home: f"README {home}/{BELOW}",
    "quoted words": lambda home: f'"README.md" "{home}/{BELOW}"',
    "JSON": lambda home: json.dumps({"path": f"{home}/{BELOW}"}),
    "JSON list": lambda home: json.dumps(["a", [f"{home}/{BELOW}"]]),
    "JSON text": lambda home: json.dumps(f"{home}/{BELOW}"),
    "JSON in JSON": lambda home: json.dumps({"a": json.dumps({"path": f"{home}/{BELOW}"})}),
    "JSON of escapes": lambda home: json.dumps({"path": "@"}).replace("@", escapes(f"{home}/{BELOW}")),
    "JSON of two equal keys": lambda home: f'{{"path": "{home}/{BELOW}", "path": "x"}}',
    "JSON with a base": lambda home: json.dumps({"root": home, "path": BELOW}),
}


def home_of(places: ProtectedPlaces) -> str:
    return os.path.dirname(places.root)


@for_each("key", ["path", "file_path", "uri", "paths", "files"])
@for_each("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_a_key_in_any_spelling(places: ProtectedPlaces, spelling: Callable[[str], str], key: str) -> None:
    """Neither a tool that reads nor one that writes may name a key, at any depth of its arguments."""
    text = spelling(home_of(places))
    for arguments in ({key: text}, {"x": [{"y": {key: [text]}}]}, {"files": [{"path": "README.md"}, {key: text}]}):
        assert protected_path(arguments, places, tool="read_file", reads=True) is not None
        assert protected_path(arguments, places, tool="write_file") is not None


FOLDERS = {
    "home": ("HOME_", BELOW),
    "tilde": ("~", BELOW),
    "variable": ("$HOME", BELOW),
    "URL": ("file://HOME_", BELOW),
    "up": ("..", BELOW),
    "top": ("/", f".HOME_/{BELOW}"),
    "nearer": ("HOME_/.config", "adjourn/keys/secret"),
    "link": ("src/config", "keys/secret"),
    "beside": ("HOME_/.config/..", f"./{BELOW}"),
    "back": ("src", f"../../{BELOW}"),
    "pattern": ("HOME_", ".conf*/adj*/keys/*"),
    "any depth": ("HOME_", "**/secret"),
    "braces": ("HOME_", "{.config,x}/adjourn/keys/secret"),
    "pattern for the folder": ("HOME_/.conf*", "adjourn/keys/secret"),
    "pattern for the folder and the name": ("HOME_/.conf*", "adj*/keys/s*"),
    "pattern that a link matches": ("src", "[j-l]/s*"),
    "pattern that a link to a key matches": ("src", "one-*"),
    "file as a folder": ("src", "k/secret/."),
    "list": ("HOME_", f"README.md,{BELOW}"),
    "lines": ("HOME_", f"README.md\n{BELOW}"),
}


@for_each(
    "base",
    [
        "root", "cwd", "workdir", "working_directory", "base", "basePath", "dir", "directory", "folder", "project",
        "projectRoot", "repo_path", "workspaceFolder", "path", "location", "prefix", "whatever",
    ],
)  # fmt: skip
@for_each(("folder", "name"), FOLDERS.values(), ids=FOLDERS)
def test_a_key_below_a_folder_of_the_arguments(places: ProtectedPlaces, base: str, folder: str, name: str) -> None:
    """Every argument may name the folder that another one is relative to, wherever both stand."""
    shapes = [
        {base: folder, "file": name},
        {"file": name, "options": {base: folder}},
        {"options": [{"more": {base: folder}}], "files": [{"name": name}]},
    ]
    for arguments in filled(shapes, places):
        assert protected_path(arguments, places, tool="read_file", reads=True) in PRIVATE


@pytest.mark.parametrize(
    "arguments",
    [
        {"root": "HOME_", "cwd": ".config", "path": "adjourn/keys/secret"},
        {"a": "HOME_", "b": ".config", "c": "adjourn", "d": "keys", "e": "secret"},
        {"root": "/nowhere", "path": "../HOME_/.config/adjourn/keys/secret"},
        {
            "root": "HOME_",
            **{f"d{number}": "src" for number in range(40)},
            "cwd": ".config",
            "path": "adjourn/keys/secret",
        },
    ],
)
def test_folders_of_folders(places: ProtectedPlaces, arguments: dict[str, Any]) -> None:
    """Folders of several arguments may be joined, whatever else is given."""
    assert protected_path(filled(arguments, places), places, tool="read_file", reads=True) in PRIVATE


SQL: dict[str, Callable[[str], str]] = {
    "hex": lambda path: f"SELECT readfile(x'{path.encode().hex()}')",
    "hex number": lambda path: f"select load_file(0x{path.encode().hex()})",
    "bytes of PostgreSQL": lambda path: rf"SELECT pg_read_file(E'\\x{path.encode().hex()}')",
    "codes": lambda path: f"SELECT load_file(char({codes(path)}))",
    "joined": lambda path: f"SELECT readfile('{path[:9]}' || '{path[9:]}')",
    "concatenated": lambda path: f"SELECT load_file(concat('{path[:9]}','{path[9:]}'))",
    "table": lambda path: f"SELECT * FROM '{path}'",
    "function": lambda path: f"SELECT * FROM read_text('{path}')",
    "URL": lambda path: f"ATTACH 'file:{path}?mode=ro' AS k",
    "command": lambda path: f".read {path}",
}


@for_each("key", ["sql", "query", "statement"])
@for_each("statement", SQL.values(), ids=SQL)
def test_a_key_in_sql(places: ProtectedPlaces, statement: Callable[[str], str], key: str) -> None:
    """A statement that opens a key is found in every form of a literal."""
    arguments = {key: statement(f"{home_of(places)}/{BELOW}")}
    assert protected_path(arguments, places, tool="db_query", reads=True) in PRIVATE
    assert protected_path(arguments, places, tool="db_run") == KEYS


@for_each("name", [f"HOME_/{BELOW}", ".aex/policy.aex"])
@for_each("key", ["diff", "edits", "blocks", "input"])
@for_each(
    "block",
    [
        "{}\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n",
        "```python\n{}\n<<<<<<< SEARCH\na\n=======\n",
        "{}\r\n```python\r\n<<<<<<< SEARCH\r\na\r\n",
        "<<<<<<< SEARCH {}\na\n",
        "**{}**\n\n```\n------- SEARCH\na\n",
        "File: {}\n<<<<<<< SEARCH\na\n",
    ],
)
def test_a_block_to_search_and_replace(places: ProtectedPlaces, block: str, key: str, name: str) -> None:
    """The file that such a block changes stands before it, or in its first line."""
    arguments = filled({key: block.format(name)}, places)
    assert protected_path(arguments, places, tool="edit_file") is not None


@for_each(
    ("tool", "arguments"),
    [
        ("Grep", {"pattern": ".", "path": "~"}),
        ("Grep", {"pattern": ".", "path": "/"}),
        ("Grep", {"pattern": ".", "path": "HOME_", "glob": "**/secret"}),
        ("Grep", {"pattern": ".", "path": "HOME_", "glob": "secre*"}),
        ("Grep", {"pattern": ".", "path": "HOME_", "glob": "!*.py"}),
        ("Grep", {"pattern": ".", "path": "HOME_/.config/adj*/keys"}),
        ("Grep", {"pattern": ".", "path": "src/config/.."}),
        ("search_code", {"query": "x", "root": "HOME_", "include": "*.py"}),
        ("Glob", {"pattern": "**/secret", "path": "~"}),
        ("Glob", {"pattern": "~/.config/adjourn/**"}),
        ("search_files", {"pattern": "**/secret", "path": "HOME_"}),
    ],
)
def test_a_search_that_may_come_upon_a_key(places: ProtectedPlaces, tool: str, arguments: dict[str, Any]) -> None:
    """A search for text may not start above the keys, unless the client's own is limited to other files."""
    assert protected_path(filled(arguments, places), places, tool=tool, reads=True) in PRIVATE


HARMLESS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "README.md"}),
    ("read_file", {"path": "ROOT/src/a.py", "offset": 1, "limit": 20}),
    ("read_file", {"path": "~/notes.txt"}),
    ("read_file", {"path": "HOME_/work/README.md:12"}),
    ("read_file", {"path": "src/keys/secret"}),
    ("read_file", {"uri": "file://ROOT/src/a.py"}),
    ("read_file", {"uri": "vscode://file/ROOT/src/a.py:3:1"}),
    ("read_file", {"uri": "git://x?file=src/a.py&ref=HEAD"}),
    ("read_multiple_files", {"paths": ["README.md", "src/a.py", "src/b.py"]}),
    ("read_multiple_files", {"paths": "README.md, src/a.py\nsrc/b.py"}),
    ("read_file", {"root": "ROOT", "path": "src/a.py"}),
    ("read_file", {"cwd": "HOME_", "path": "work/README.md"}),
    ("list_directory", {"path": "."}),
    ("list_directory", {"path": "~"}),
    ("directory_tree", {"path": "HOME_"}),
    ("Glob", {"pattern": "**/*.py"}),
    ("Glob", {"pattern": "src/**/*.{ts,tsx}", "path": "ROOT"}),
    ("Glob", {"pattern": "**/*.py", "path": "HOME_"}),
    ("Glob", {"pattern": "~/*.md"}),
    ("Grep", {"pattern": "keys/secret", "path": "src"}),
    ("Grep", {"pattern": ".config/adjourn", "glob": "*.py"}),
    ("Grep", {"pattern": "def .*main", "path": "ROOT", "output_mode": "content", "-n": True}),
    ("Grep", {"pattern": "x", "path": "HOME_", "glob": "*.py"}),
    ("Grep", {"pattern": "x", "path": "HOME_", "type": "py"}),
    ("search_files", {"pattern": "*.md", "path": "HOME_", "excludePatterns": ["**/secret", "**/*.key"]}),
    ("search", {"query": "where does adjourn keep ~/.config/adjourn/keys?"}),
    ("search", {"query": "how do keys in ~/.config/adjourn/keys/ work", "limit": 5}),
    ("get_issue", {"owner": "o", "repo": "r", "title": "Describe ~/.config/adjourn/keys"}),
    ("fetch", {"url": "https://example.org/.config/adjourn/keys/secret?a=b"}),
    ("query", {"sql": "SELECT * FROM notes WHERE text LIKE '%keys%'"}),
    ("query", {"sql": "SELECT path, count(*) FROM files GROUP BY path"}),
    ("read_text", {"text": "line\n~/.config/adjourn/keys/secret\n"}),
    ("show", {"input": '{"title": "keys", "path": "src/a.py"}'}),
]


@for_each(("tool", "arguments"), HARMLESS)
def test_an_ordinary_call_that_reads(places: ProtectedPlaces, tool: str, arguments: dict[str, Any]) -> None:
    """What reads other files, or speaks of the keys, passes."""
    assert protected_path(filled(arguments, places), places, tool=tool, reads=True) is None


RECORDS = [
    {"project": f"p{number}", "title": "some words", "owner": "ann, bob", "state": "open"} for number in range(300)
]
WRITING: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "README.md", "content": "See .aex/policy.aex and ~/.config/adjourn/keys/secret.\n"}),
    ("write_file", {"path": "x.json", "content": '{"path": ".aex/policy.aex", "keys": "~/.config/adjourn/keys"}'}),
    ("write_file", {"path": "x.md", "content": "a\n.aex/policy.aex\n<<<<<<< SEARCH\nb\n"}),
    ("edit_file", {"path": "src/a.py", "edits": [{"oldText": ".aex/policy", "newText": "cat ~/.config/adjourn/keys"}]}),
    ("Edit", {"file_path": "ROOT/src/a.py", "old_string": "keys", "new_string": "open('.aex/adjourn.db')"}),
    ("git_commit", {"repo_path": "ROOT", "message": "Explain .aex/policy.aex"}),
    ("create_issue", {"title": "Move .aex/policy.aex elsewhere", "body": "See ~/.config/adjourn/keys."}),
    ("add_note", {"note": "the keys are in ~/.config/adjourn/keys"}),
    (
        "write_files",
        {
            "files": {
                ".gitignore": ".aex/checkpoints/\n.aex/adjourn.db*\n",
                "Dockerfile": "COPY .aex/policy.aex /x\nRUN ls",
            }
        },
    ),
    ("write_file", {"path": ".gitignore", "fileContent": ".aex/checkpoints/\n.aex/adjourn.db\n"}),
    ("add_records", {"records": RECORDS}),
    ("format_files", {"paths": ["src/**/*.py", "**/*.md"]}),
    ("write_file", {"root": "..", "path": "work/src/b.py"}),
    ("write_files", {"files": {"src/a.py": "policy", "src/b.py": "x = '.aex/policy.aex'"}}),
    ("delete_files", {"pattern": "**/*.pyc", "path": "src"}),
]


@for_each(("tool", "arguments"), WRITING)
def test_an_ordinary_call_that_writes(places: ProtectedPlaces, tool: str, arguments: dict[str, Any]) -> None:
    """A text that speaks of a protected place is no path to it."""
    assert protected_path(filled(arguments, places), places, tool=tool) is None


def test_a_whole_workspace_around_the_keys_may_be_searched(places: ProtectedPlaces) -> None:
    """Where the workspace is the home folder, only what names a key is refused."""
    around = places_of(home_of(places))
    for tool, arguments in (
        ("Grep", {"pattern": "x"}),
        ("Grep", {"pattern": "x", "path": "."}),
        ("Glob", {"pattern": "**/*"}),
    ):
        assert protected_path(arguments, around, tool=tool, reads=True) is None
    assert protected_path({"pattern": "**/secret"}, around, tool="Glob", reads=True) in PRIVATE
    assert protected_path({"pattern": "x", "path": "/"}, around, tool="Grep", reads=True) in PRIVATE


def test_a_setting_beside_the_keys_that_was_replaced(places: ProtectedPlaces) -> None:
    """A link to the folder leads to its newest content."""
    folder = f"{home_of(places)}/.config/adjourn"
    assert protected_path({"path": "src/config/keys/secret"}, places, reads=True) in PRIVATE
    with open(f"{folder}/new", "w", encoding="utf-8") as file:
        file.write("x")
    os.rename(f"{folder}/new", f"{folder}/settings.toml")
    assert protected_path({"path": "src/config/settings.toml"}, places, reads=True) in PRIVATE


WRAPPED = st.sampled_from([
    "{}", " {}\n", "a.py,{}", "a.py\n{}", "./a.py {}", "'{}'", '["{}"]', '{{"file": "{}"}}', "{}\0", "@{}", '["a.py;{}"]',
])  # fmt: skip
PIECES = st.fixed_dictionaries({
    "start": st.sampled_from(["HOME_/.config/adjourn", "~/.config/adjourn", "../.config/adjourn", "src/config"]),
    "cut": st.integers(0, 2),
    "wild": st.sets(st.integers(1, 2)),
    "around": WRAPPED,
    "keys": st.sampled_from([("root", "path"), ("dir", "file"), ("x", "filename"), ("path", "glob")]),
})  # fmt: skip


@given(pieces=PIECES)
def test_a_key_in_pieces(places: ProtectedPlaces, pieces: dict[str, Any]) -> None:
    """A key is found wherever its path is cut into a folder and a name, with patterns in the name, and with anything around it."""
    start, cut = pieces["start"], pieces["cut"]
    names = [
        start,
        *(f"{name[:2]}*" if at in pieces["wild"] and at >= cut else name for at, name in ((1, "keys"), (2, "secret"))),
    ]
    folder, name = "/".join(names[:cut]), "/".join(names[cut:])
    base, path = pieces["keys"]
    arguments = filled({base: folder, path: pieces["around"].format(name)}, places)
    assert protected_path(arguments, places, tool="read_file", reads=True) in PRIVATE


@for_each(
    "arguments",
    [
        {"paths": [f"src/d{number}" for number in range(scaled(20_000))]},
        {"paths": ["src"] * scaled(20_000)},
        {"files": ",".join(f"src/{number}.py" for number in range(scaled(9_000)))},
        {"a": {str(number): [{"path": f"src/{number}", "cwd": "src"}] for number in range(scaled(5_000))}},
        {"a": [{"cwd": f"d{number}"} for number in range(scaled(5_000))], "command": "cat a " * scaled(5_000)},
        {"path": "{a,b}" * scaled(400)},
        {"path": "*a" * scaled(2_000)},
        {"path": "/".join(["**"] * scaled(1_000))},
        {"path": "file:" * scaled(20_000)},
        {"path": "%25" * scaled(50_000)},
        {"path": "$HOME" * scaled(20_000)},
        {"input": '{"a":' * scaled(50_000)},
        {"input": '{"a":1,"a":' * scaled(2_000) + "1" + "}" * scaled(2_000)},
        {"input": "[" * 900 + "]" * 900},
        {"sql": "char(" * scaled(50_000)},
        {"sql": "select " + "x'41414141' || " * scaled(20_000)},
        {"diff": "a\n" * scaled(50_000) + "<<<<<<< SEARCH\n" * scaled(10_000)},
    ],
    ids=lambda arguments: str(arguments)[:40],
)
@for_each("reads", [True, False])
def test_no_arguments_are_searched_for_long(places: ProtectedPlaces, arguments: dict[str, Any], reads: bool) -> None:
    """The search takes time in proportion to the size of a call; one that would take longer is refused."""
    began = process_time()
    protected_path(arguments, places, tool="read_file", reads=reads)
    assert process_time() - began < scaled_seconds(5)


def test_too_many_folders_of_the_arguments_are_refused(places: ProtectedPlaces) -> None:
    """Where more names would have to be looked for in more folders than anybody gives, the call may reach anything."""
    for number in range(200):
        os.mkdir(f"{places.root}/build/{number}")
    given_ = {"a": [f"build/{number}" for number in range(200)], "b": [f"x{number}" for number in range(200)]}
    assert protected_path(given_, places, tool="read_file", reads=True) == FOLDER
    few = {"paths": given_["a"][:50]}
    assert protected_path(few, places, tool="read_file", reads=True) is None
