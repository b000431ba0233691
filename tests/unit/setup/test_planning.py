"""What `adjourn init` plans for settings of every kind: names of servers, types of entries, odd hooks."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from adjourn.setup import policy_plan, toml_text, undo
from adjourn.setup.places import Home
from adjourn.setup.places import home as home_of
from adjourn.setup.planning import SetupPlan, plan
from adjourn.setup.probe import Probed, ProbedTool
from adjourn.setup.servers import names_of
from support.cases import for_each
from support.home import BIN

HOOKS = ".claude/settings.json"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("home", "work/.claude", "bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin" / "adjourn").symlink_to(f"{BIN}/adjourn")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    return (tmp_path / "work").resolve()


@pytest.fixture
def home(root: Path) -> Home:
    return home_of({"HOME": str(root.parent / "home")})


def put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def listed(**servers: Any) -> str:
    return json.dumps({"mcpServers": servers}, ensure_ascii=False)


def after(made: SetupPlan, path: Path) -> dict[str, Any]:
    """The servers of a file as it would be."""
    return dict(json.loads(made.changes[str(path)].after)["mcpServers"])


def test_names_that_differ_only_in_what_policies_do_not_tell_stay_two(root: Path, home: Home) -> None:
    """The one that has the canonical name keeps it, and the names are the same at the next set-up."""
    servers = {
        name: {"command": "run", "args": []} for name in ("my-server", "my_server", "my.server", "高德", "Погода")
    }
    path = put(root, ".mcp.json", listed(**servers))
    for _ in range(2):
        made = plan(str(root), home)
        text = made.changes[str(path)].after if str(path) in made.changes else path.read_text()
        names = {name: server["args"][2] for name, server in json.loads(text)["mcpServers"].items()}
        assert names == {
            "my-server": "my_server_2", "my_server": "my_server", "my.server": "my_server_3",
            "高德": "xn_p5t292k", "Погода": "xn_r0a8aie2cb",
        }  # fmt: skip
        assert {entry.title: entry.name for entry in made.servers} == names
        path.write_text(text)


def test_a_name_that_a_person_gave_is_kept() -> None:
    """Rules are written for the name that the proxy has, and no other server gets it."""
    proxied = {"command": "adjourn", "args": ["proxy", "--name", "stock", "--", "run"]}
    plain = {"command": "run"}
    assert names_of([("stock", plain), ("inv", proxied)]) == {"inv": "stock", "stock": "stock_2"}
    assert names_of([("a" * 70, plain), ("a" * 80, plain)]) == {"a" * 70: "a" * 64, "a" * 80: "a" * 62 + "_2"}
    assert names_of([("adjourn", plain), ("unknown", plain), ("git", plain)]) == {
        "adjourn": "adjourn_2", "unknown": "unknown_2", "git": "git",
    }  # fmt: skip
    assert names_of([("--", plain), ("..", plain)]) == {"--": "", "..": ""}


def test_one_name_in_two_files_that_start_other_commands_is_said(root: Path, home: Home) -> None:
    """Rules count for both, so a person has to know; the same command in two files is one server."""
    put(root, ".mcp.json", listed(db={"command": "db", "args": ["--read"]}, same={"command": "x"}))
    put(root, ".cursor/mcp.json", listed(db={"command": "db", "args": ["--write"]}, same={"command": "x"}))
    [note] = [note for note in plan(str(root), home).notes if "another command" in note.text]
    assert "server db" in note.text
    assert note.path.endswith(".cursor/mcp.json")


@for_each("kind", ["STDIO", None, "command", 7])
def test_an_entry_of_another_type_is_named_with_its_type(kind: object, tmp_path: Path) -> None:
    """No client starts such an entry as a command, and the reason is not that it has none."""
    root = tmp_path / "w"
    put(root, ".mcp.json", listed(s={"type": kind, "command": "run", "args": []}))
    made = plan(str(root), home_of({"HOME": str(tmp_path)}))
    [note] = [note for note in made.notes if "server s" in note.text]
    assert f"its `type` is {json.dumps(kind)}" in note.text
    assert "stdio" in note.remedy


@pytest.mark.parametrize(
    "text",
    ['{"hooks": null}', '{"hooks": {"PreToolUse": null}}', '{"hooks": {}}', '{"hooks": {"Stop": [null, "x"]}}', "{}"],
)
def test_hooks_that_are_empty_are_set_up_and_taken_back(root: Path, home: Home, text: str) -> None:
    """A null is nothing: each event gets its hook, and the file is as it was after the undo."""
    path = put(root, HOOKS, text)
    made = plan(str(root), home)
    hooks = json.loads(made.changes[str(path)].after)["hooks"]
    assert len(hooks) == 9
    assert all("adjourn hook" in json.dumps(groups) for groups in hooks.values())
    undo.make(made.pending, str(root))
    files, left = undo.undoable(str(root), home)
    assert not left
    undo.take_back(files, str(root), keep=False)
    assert path.read_text() == text


@pytest.mark.parametrize(
    "text", ['{"hooks": []}', '{"hooks": {"Stop": {"hooks": []}}}', '{"hooks": {"PreToolUse": "x"}}']
)
def test_hooks_of_another_shape_stop_the_set_up(root: Path, home: Home, text: str) -> None:
    """Not one event is set up where another cannot be: half of the hooks would look like all."""
    path = put(root, HOOKS, text)
    made = plan(str(root), home)
    assert [note.path for note in made.broken] == [str(path)]
    assert str(path) not in made.changes


def test_settings_on_the_way_to_the_folder_of_a_person_are_set_up(root: Path, home: Home) -> None:
    """A package of a monorepo has servers and hooks of its own, under the policy at the top; the undo takes back all of it."""
    put(root, ".mcp.json", listed(top={"command": "t", "args": []}))
    inner = put(root, "packages/a/.mcp.json", listed(a={"command": "x", "args": ["y"], "cwd": "src"}))
    put(root, "packages/b/.mcp.json", listed(b={"command": "z", "args": []}))
    put(root, "packages/node_modules/c/.mcp.json", listed(c={"command": "z", "args": []}))
    before = {path: path.read_text() for path in root.rglob("*.json")}
    made = plan(str(root), home, str(root / "packages/a"))
    assert after(made, inner)["a"]["args"] == ["proxy", "--name", "a", "--", "x", "y"]
    assert [(entry.name, entry.cwd) for entry in made.servers] == [("top", ""), ("a", "packages/a/src")]
    hooks = {path for path in made.changes if path.endswith("settings.json")}
    assert hooks == {str(root / HOOKS), str(root / "packages/a" / HOOKS)}
    notes = [(note.path, note.remedy) for note in made.notes if "not behind the proxy" in note.text]
    assert notes == [(str(root / "packages/b/.mcp.json"), "run adjourn init in packages/b, too")]
    undo.make(made.pending, str(root))
    assert not plan(str(root), home, str(root / "packages/a")).pending
    files, left = undo.undoable(str(root), home)
    assert not left
    undo.take_back(files, str(root), keep=False)
    assert {path: path.read_text() for path in root.rglob("*.json")} == before


@pytest.mark.extra("gateway")
def test_a_server_over_http_goes_behind_the_proxy_with_its_headers(root: Path, home: Home) -> None:
    """Its headers become variables of the entry, as the client has them: no secret stands in a command. Undo takes all of it back."""
    text = """{
  "mcpServers": {
    // ours
    "web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}", "X-Org": "a, b"}},
    "plain": {"url": "http://127.0.0.1:9/mcp", "timeout": 5}
  }
}
"""
    path = put(root, ".mcp.json", text)
    made = plan(str(root), home)
    edited = made.changes[str(path)].after
    assert "// ours" in edited
    web, plain = json.loads(edited.replace("// ours", ""))["mcpServers"].values()
    assert web == {
        "type": "stdio", "command": "adjourn",
        "args": [
            "proxy", "--name", "web", "--url", "https://example.com/mcp", "--header-env",
            "Authorization=HEADER_AUTHORIZATION,X-Org=HEADER_X_ORG",
        ],
        "env": {"HEADER_AUTHORIZATION": "Bearer ${TOKEN}", "HEADER_X_ORG": "a, b"},
    }  # fmt: skip
    assert plain == {
        "timeout": 5,
        "command": "adjourn",
        "args": ["proxy", "--name", "plain", "--url", "http://127.0.0.1:9/mcp"],
    }
    before = [entry.words for entry in made.servers]
    undo.make(made.pending, str(root))
    again = plan(str(root), home)
    assert not again.pending
    assert [entry.words for entry in again.servers] == before
    assert [entry.source for entry in again.servers] == ["https://example.com", "http://127.0.0.1:9"]
    files, left = undo.undoable(str(root), home)
    assert not left
    undo.take_back(files, str(root), keep=False)
    assert path.read_text() == text


@pytest.mark.extra("gateway")
def test_a_server_of_codex_over_http_goes_behind_the_proxy(root: Path, home: Home) -> None:
    """Codex passes its servers only the variables that an entry lists."""
    text = """[mcp_servers.web] # ours
url = "https://example.com/mcp"
bearer_token_env_var = "WEB_TOKEN"
env_http_headers = { "X-Org" = "ORG" }

[mcp_servers.web.http_headers]
X-Team = "blue"
"""
    path = put(root, ".codex/config.toml", text)
    made = plan(str(root), home)
    server = tomllib.loads(made.changes[str(path)].after)["mcp_servers"]["web"]
    assert server["args"] == [
        "proxy", "--name", "web", "--url", "https://example.com/mcp", "--bearer-env", "WEB_TOKEN", "--header-env",
        "X-Team=HEADER_X_TEAM,X-Org=ORG",
    ]  # fmt: skip
    assert server["env"] == {"HEADER_X_TEAM": "blue"}
    assert {"WEB_TOKEN", "ORG", "ADJOURN_CONFIG"} <= set(server["env_vars"])
    assert "url" not in server
    undo.make(made.pending, str(root))
    assert not plan(str(root), home).pending
    files, _ = undo.undoable(str(root), home)
    undo.take_back(files, str(root), keep=False)
    assert path.read_text() == text


@pytest.mark.extra("gateway")
@for_each(
    ("server", "why"),
    [
        ({"url": "https://example.com/mcp?key=hush"}, "may hold a secret"),
        ({"url": "https://me:hush@example.com/mcp"}, "may hold a secret"),
        ({"url": "wss://example.com/mcp"}, "not over HTTP"),
        ({"url": "https://example.com/mcp", "type": "ws"}, "not over HTTP"),
        ({"url": "https://example.com/mcp", "headersHelper": "get.sh"}, "logs in by `headersHelper`"),
        ({"url": "https://example.com/mcp", "headers": {"X": 5}}, "headers are not texts"),
        ({"url": "https://example.com/mcp", "headers": []}, "headers are not texts"),
        ({"url": "https://example.com/mcp", "headers": {"a=b": "x"}}, "headers are not texts"),
    ],
)
def test_a_server_over_the_network_that_no_proxy_reaches_is_named(
    server: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """It stays as it is, and the reason tells what to change."""
    root = tmp_path / "w"
    path = put(root, ".mcp.json", listed(s=server))
    made = plan(str(root), home_of({"HOME": str(tmp_path)}))
    assert str(path) not in made.changes
    [note] = [note for note in made.notes if "server s" in note.text]
    assert why in note.text
    assert "hush" not in note.text + note.remedy


@pytest.mark.parametrize("is_list", [True, False])
def test_servers_of_plugins_get_rules(root: Path, home: Home, *, is_list: bool) -> None:
    """By the names that Claude Code gives their tools; their files stay as they are. One that is not enabled is left out."""
    folder = root.parent / "home" / ".claude" / "plugins" / "cache" / "hub"
    inner = put(folder, ".mcp.json", listed(api={"command": "${CLAUDE_PLUGIN_ROOT}/serve", "args": ["--x"]}))
    installed = {"installPath": str(folder)}
    table = {name: [installed] if is_list else installed for name in ("hub@market", "off@market")}
    put(folder.parent.parent, "installed_plugins.json", json.dumps({"plugins": table}))
    put(root, HOOKS, '{"enabledPlugins": {"hub@market": true, "off@market": false}}')
    made = plan(str(root), home)
    assert [(entry.name, list(entry.words)) for entry in made.servers] == [
        ("plugin_hub_api", [f"{folder}/serve", "--x"])
    ]
    assert str(inner) not in made.changes
    assert made.proxied == set()


@for_each(
    ("text", "edited"),
    [
        (None, {"hooks": {}, "permissions": {"allow": ["Bash(ls)"]}}),
        ('{"permissions": {"allow": ["Read(a)"]}, "model": "x"}', {"permissions": {"allow": ["Read(a)", "Bash(ls)"]}, "model": "x"}),
        ('{"permissions": {"allow": null}}', None),
        ('{"permissions": {"deny": ["mcp__my_inv__get_item"]}}', None),
    ],
)  # fmt: skip
def test_claude_code_does_not_ask_again_about_what_is_allowed(
    root: Path, home: Home, text: str | None, edited: dict[str, Any] | None
) -> None:
    """Its settings allow the servers' tools that only read, and adjourn's own; the undo takes these out of a list that has more by now."""
    put(root, ".mcp.json", listed(**{"my.inv": {"command": "run", "args": []}}))
    path = root / HOOKS
    if text is not None:
        path.write_text(text)
    made = plan(str(root), home)
    tools = tuple(ProbedTool(name) for name in ("get_item", "add_item", "remove_item"))
    policy_plan.with_tools(made, [(entry, Probed(tools=tools)) for entry in made.servers], observe=False)
    allowed = json.loads(made.changes[str(path)].after)["permissions"]["allow"]
    assert allowed[-3:] == ["mcp__my_inv__aex_*", "mcp__my_inv__adjourn_*", "mcp__my_inv__get_item"]
    undo.make(made.pending, str(root))
    if edited is not None:
        now = json.loads(path.read_text())
        now["permissions"]["allow"].append("Bash(ls)")
        path.write_text(json.dumps(now))
    files, left = undo.undoable(str(root), home)
    assert not left
    undo.take_back(files, str(root), keep=False)
    if edited is None:
        assert path.read_text() == text
    else:
        edited.pop("hooks", None)
        assert json.loads(path.read_text()) == edited


def test_what_clients_need_not_ask_keeps_a_files_own_ends(root: Path, home: Home) -> None:
    """Lines that end in CRLF still do, also those added; a file in which all is approved stays as it is, with its blank lines at the end."""
    put(root, ".mcp.json", listed(inv={"command": "run", "args": []}))
    settings = root / HOOKS
    settings.write_bytes(b'{\r\n  "model": "x"\r\n}\r\n')
    text = '[mcp_servers.inv]\ncommand = "run"\n\n[mcp_servers.inv.tools.get_item]\napproval_mode = "prompt"\n\n\n'
    assert (
        toml_text.with_new_tables(text, [("mcp_servers", "inv", "tools", "get_item")], {"approval_mode": "x"}) == text
    )
    made = plan(str(root), home)
    answers = [(entry, Probed(tools=(ProbedTool("get_item"),))) for entry in made.servers]
    policy_plan.with_tools(made, answers, observe=False)
    after = made.changes[str(settings)].after
    assert "mcp__inv__get_item" in after
    assert after.count("\n") == after.count("\r\n") > 10


def test_codex_does_not_ask_again_about_what_is_allowed(root: Path, home: Home) -> None:
    """Each tool that only reads is approved in Codex's settings, whatever its name; a choice that is there stays."""
    (root / ".codex").mkdir()
    text = '[mcp_servers.inv]\ncommand = "run"\n\n[mcp_servers.inv.tools.get_item]\napproval_mode = "prompt"\n'
    path = put(root, ".codex/config.toml", text)
    made = plan(str(root), home)
    tools = tuple(ProbedTool(name) for name in ("get_item", "get.all", "add_item"))
    policy_plan.with_tools(made, [(entry, Probed(tools=tools)) for entry in made.servers], observe=False)
    server = tomllib.loads(made.changes[str(path)].after)["mcp_servers"]["inv"]
    assert server["tools"] == {"get_item": {"approval_mode": "prompt"}, "get.all": {"approval_mode": "approve"}}
    undo.make(made.pending, str(root))
    files, left = undo.undoable(str(root), home)
    assert not left
    undo.take_back(files, str(root), keep=False)
    assert path.read_text() == text
