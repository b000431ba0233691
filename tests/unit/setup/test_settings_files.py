"""Settings files of nine clients: set up, what each client would start then, and taken back byte for byte."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from adjourn.setup import undo
from adjourn.setup.places import CLIENTS, Home, user_folder
from adjourn.setup.places import home as home_of
from adjourn.setup.planning import plan, plan_for_user
from support.home import BIN
from support.settings import FILES, PLACES, entries, place_of, started

ADDRESS = ("url", "httpUrl", "serverUrl")
IN_PROJECT = [file for file in FILES if not file.name.startswith("home-")]
COMMENT = re.compile(r"/\*.*?\*/|(?<![:\"\w])(?://|# ).*")


def named(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"


def canonical(name: str) -> str:
    is_other_script = not re.search("[A-Za-z0-9]", name) and any(map(str.isalnum, name))
    return re.sub(r"[^A-Za-z0-9_]", "_", f"xn_{name.encode('punycode').decode()}" if is_other_script else name)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("home", "work", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "home" / ".claude").mkdir()
    (tmp_path / "bin" / "adjourn").symlink_to(f"{BIN}/adjourn")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    return (tmp_path / "work").resolve()


@pytest.fixture
def home(root: Path) -> Home:
    return home_of({"HOME": str(root.parent / "home")})


def put(file: Path, root: Path) -> Path:
    place = place_of(file, root, root.parent / "home")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(file.read_bytes())
    return place


def behind(client: str, before: dict[str, Any], after: dict[str, Any], *, options: list[str]) -> None:
    """Every command is behind the proxy under its own name, and nothing else of an entry changed."""
    assert list(after) == list(before)
    for name, server in before.items():
        then, now = started(client, server), started(client, after[name])
        if then is None and (address := next((server[key] for key in ADDRESS if key in server), "")).startswith("http"):
            assert now is not None
            named = [*(["--name", canonical(name)] if canonical(name).strip("_") else []), *options]
            assert now.words[now.words.index("proxy") :][: len(named) + 3] == ["proxy", *named, "--url", address]
            headers = {**server.get("headers", {}), **server.get("http_headers", {})}
            assert set(headers.values()) <= set(now.env.values())
            assert not set(headers.values()) & set(now.words)
            assert not {*ADDRESS, "headers", "http_headers"} & after[name].keys()
            continue
        if then is None or "proxy" in then.words:
            assert after[name] == server
            continue
        assert now is not None
        at = now.words.index("proxy")
        own = [*(["--name", canonical(name)] if canonical(name).strip("_") else []), *options]
        assert now.words[at:] == ["proxy", *own, "--", *then.words]
        assert now.env == then.env
        spelled = {"command", "args", "env", "environment", "env_vars"}
        for member in (server.keys() | after[name].keys()) - spelled:
            assert after[name].get(member) == server.get(member)


def test_there_are_files_of_nine_clients() -> None:
    """At least forty, in the layouts that people have: comments, CRLF, a mark of the byte order, tabs, one line, no end of line."""
    assert {file.parent.name for file in FILES} == PLACES.keys()
    assert len(FILES) >= 40
    contents = [file.read_bytes() for file in FILES]
    for part in (b"\r\n", b"\xef\xbb\xbf", b"\t", b"//", b"/*", b"# ", b"\xc3", b'"disabled": true', b'"url"'):
        assert sum(part in content for content in contents) >= 2, part
    assert sum(not content.endswith(b"\n") for content in contents) >= 5


def test_the_table_names_its_sources() -> None:
    """Each client's row says which documentation it was taken from, and has a file somewhere."""
    assert {client.name.lower().replace(" ", "-") for client in CLIENTS} >= PLACES.keys()
    for client in CLIENTS:
        assert client.source.startswith("https://")
        assert client.workspace or client.home


@pytest.mark.extra("gateway")
@pytest.mark.parametrize("file", IN_PROJECT, ids=named)
def test_a_project_s_file_is_set_up_and_taken_back_byte_for_byte(file: Path, root: Path, home: Home) -> None:
    """After the set-up, the client starts the proxy with the server's name, and comments are still there."""
    place, client = put(file, root), file.parent.name
    was = place.read_bytes()
    made = plan(str(root), home)
    assert not made.broken
    undo.make(made.pending, str(root))
    now = place.read_bytes()
    behind(client, entries(client, was), entries(client, now), options=[])
    kept = [line.strip() for line in COMMENT.findall(was.decode())]
    assert all(comment in now.decode() for comment in kept)
    assert (b"\r\n" in was) == (b"\r\n" in now)
    assert now.count(b"\n") == now.count(b"\r\n") or b"\r\n" not in was
    assert not [change for change in plan(str(root), home).pending if change.path == str(place)]
    files, left = undo.undoable(str(root), home)
    assert not left
    undo.take_back(files, str(root), keep=False)
    assert place.read_bytes() == was


# --- the user's own settings


@pytest.mark.extra("gateway")
@pytest.mark.parametrize("file", [file for file in FILES if file not in IN_PROJECT], ids=named)
def test_a_file_of_the_home_folder_is_set_up_and_taken_back_byte_for_byte(file: Path, root: Path, home: Home) -> None:
    """Its servers go behind a proxy that passes everything where there is no workspace, and nothing else changes."""
    place, client = put(file, root), file.parent.name
    was = place.read_bytes()
    made = plan_for_user(home)
    assert not made.broken
    folder = user_folder()
    Path(folder).mkdir(parents=True)
    undo.make(made.pending, folder)
    behind(client, entries(client, was), entries(client, place.read_bytes()), options=["--outside", "pass"])
    assert not plan_for_user(home).pending
    files, left = undo.undoable(folder, home)
    assert not left
    undo.take_back(files, folder, keep=False)
    assert place.read_bytes() == was
    assert not (Path(home.claude_settings)).exists()


def test_a_workspace_needs_no_servers_and_hooks_of_its_own_after_that(root: Path, home: Home) -> None:
    """What the user's settings put behind the proxy stays one entry, and each event has one hook."""
    put(next(file for file in FILES if named(file) == "claude-code/home-user.json"), root)
    put(next(file for file in FILES if named(file) == "codex/home-user.toml"), root)
    Path(user_folder()).mkdir(parents=True)
    undo.make(plan_for_user(home).pending, user_folder())
    made = plan(str(root), home)
    assert [change.path for change in made.pending] == [
        str(root / ".aex" / "policy.aex"),
        str(root / ".aex" / ".gitignore"),
    ]
    hooks = [note for note in made.notes if "has a hook for SessionStart, UserPromptSubmit" in note.text]
    assert {note.path for note in hooks} == {home.claude_settings, home.codex_hooks}


def test_a_proxy_of_the_home_folder_gets_the_option_that_it_lacks(root: Path, home: Home) -> None:
    """One that was written by hand would start no server outside a workspace."""
    place = root.parent / "home" / ".cursor" / "mcp.json"
    place.parent.mkdir()
    place.write_text('{"mcpServers": {"s": {"command": "adjourn", "args": ["proxy", "--", "x"]}}}')
    [change] = [change for change in plan_for_user(home).pending if change.path == str(place)]
    assert '"args": ["proxy", "--name", "s", "--outside", "pass", "--", "x"]' in change.after


def test_what_may_start_elsewhere_is_named(root: Path, home: Home) -> None:
    """An editor may start its servers in another folder than the project's, and the user is warned."""
    for name in ("windsurf/home-docs.json", "claude-code/home-user.json"):
        put(next(file for file in FILES if named(file) == name), root)
    notes = [note.text for note in plan_for_user(home).notes]
    assert [text.partition(" may start")[0] for text in notes if "another folder" in text] == ["Windsurf"]
