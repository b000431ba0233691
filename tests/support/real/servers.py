"""The real servers: how each is started, on what ground, what its tools are called with, and what varies in its answers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from support import tools
from support.real.arguments import minimal
from support.real.lines import MODERN, Object

LEGACY = "2025-11-25"
TIME = rb"\d\d?:\d\d:\d\d(\.\d+)?"
STAMP = rb"\d{4}-\d\d-\d\d[T ]" + TIME + rb"(Z|[+-]\d\d:\d\d)?"
UUID = rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
LARGE = "".join(f"line {number} — ünïcödé \u2028 🙂\n" for number in range(8000))


class Call(NamedTuple):
    """A call that succeeds, unless it says that it `fails`: the same refusal must come through, too."""

    tool: str
    arguments: Object
    fails: bool = False


@dataclass(frozen=True)
class Place:
    """Where a run takes place: `root` is the workspace and working folder, `site` what the server works on."""

    root: Path
    web: str

    @property
    def site(self) -> Path:
        return self.root / "site"

    def environment(self) -> dict[str, str]:
        """The same for both runs, and nothing in it that changes from one to the next."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": f"{self.root}-home",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONHASHSEED": "0",
            "MEMORY_FILE_PATH": str(self.site / "memory.jsonl"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_AUTHOR_DATE": "1767323045 +0000",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.org",
            "GIT_COMMITTER_DATE": "1767323045 +0000",
        }


@dataclass(frozen=True)
class Varying:
    """A part of some answers that differs from run to run; `why` says where it comes from."""

    label: str
    pattern: bytes
    why: str


@dataclass(frozen=True)
class Server:
    """One row of the matrix. Tools that `calls` does not name are called with minimal arguments of their schema."""

    name: str
    command: Callable[[Place], list[str] | None]
    revisions: tuple[str, ...]
    calls: Callable[[Place], list[Call]]
    prepare: Callable[[Place], None] = lambda place: None
    varying: tuple[Varying, ...] = ()
    asks_first: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    wrong: tuple[str, ...] = ()
    """Tools that are called with arguments that their schema refuses, too."""


def reply(place: Place) -> Callable[[str, Object], Object]:
    """What the client answers when a server asks it something."""

    def answer(method: str, params: Object) -> Object:
        if method == "roots/list":
            return {"roots": [{"uri": place.site.as_uri(), "name": "site"}]}
        if method == "sampling/createMessage":
            text = {"type": "text", "text": "sampled"}
            return {"role": "assistant", "content": text, "model": "m", "stopReason": "endTurn"}
        if method == "elicitation/create":
            asked: Any = params.get("requestedSchema")
            return {"action": "accept"} | ({"content": minimal(asked)} if asked else {})
        return {}

    return answer


# --- npm: legacy revisions only


def _npm(package: str, *arguments: str) -> Callable[[Place], list[str] | None]:
    def command(place: Place) -> list[str] | None:
        program = tools.npm_program(package)
        return program and [*program, *(text.replace("{site}", str(place.site)) for text in arguments)]

    return command


def _everything(place: Place) -> list[Call]:
    link = {"url": "http://127.0.0.1:9/sign-in", "elicitationId": "one"}
    return [
        Call("echo", {"message": "hello"}),
        Call("echo", {"message": 'ünïcödé 🙂 \u2028 \\ "quoted" \r\n \u0000 ' + "x" * 100_000}),
        Call("get-annotated-message", {"messageType": "error", "includeImage": True}),
        Call("get-annotated-message", {"messageType": "debug"}),
        Call("get-resource-links", {"count": 10}),
        Call("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        Call("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
        Call("get-sum", {"a": 0.1, "b": 1e300}),
        Call("gzip-file-as-resource", {"name": "a.gz", "data": "data:text/plain,hello", "outputType": "resource"}),
        Call("gzip-file-as-resource", {"name": "b.gz", "data": "data:text/plain,there"}),
        Call("toggle-simulated-logging", {}),
        Call("toggle-simulated-logging", {}),
        Call("toggle-subscriber-updates", {}),
        Call("toggle-subscriber-updates", {}),
        Call("trigger-long-running-operation", {"duration": 0.3, "steps": 3}),
        Call("trigger-url-elicitation", link),
        Call("trigger-url-elicitation", link | {"errorPath": True}, fails=True),
    ]


def _files(place: Place) -> list[Call]:
    site, a = str(place.site), str(place.site / "a.txt")
    return [
        Call("list_directory", {"path": site}),
        Call("list_directory_with_sizes", {"path": site, "sortBy": "size"}),
        Call("directory_tree", {"path": site}),
        Call("read_file", {"path": a}),
        Call("read_text_file", {"path": a, "head": 1}),
        Call("read_text_file", {"path": str(place.site / "large.txt")}),
        Call("read_media_file", {"path": str(place.site / "pixel.png")}),
        Call("read_multiple_files", {"paths": [a, str(place.site / "none.txt")]}),
        Call("write_file", {"path": str(place.site / "new.txt"), "content": LARGE}),
        Call("edit_file", {"path": a, "edits": [{"oldText": "two", "newText": "TWO"}], "dryRun": True}),
        Call("edit_file", {"path": a, "edits": [{"oldText": "two", "newText": "TWO"}]}),
        Call("edit_file", {"path": a, "edits": [{"oldText": "not there", "newText": "x"}]}, fails=True),
        Call("create_directory", {"path": str(place.site / "more" / "deeper")}),
        Call("move_file", {"source": a, "destination": str(place.site / "more" / "b.txt")}),
        Call("search_files", {"path": site, "pattern": "**/*.txt"}),
        Call("get_file_info", {"path": str(place.site / "pixel.png")}),
        Call("read_text_file", {"path": "/etc/hostname"}, fails=True),
    ]


def _prepare_files(place: Place) -> None:
    (place.site / "a.txt").write_text("one\ntwo\nthree\n")
    (place.site / "large.txt").write_text(LARGE)
    (place.site / "pixel.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))


def _memory(place: Place) -> list[Call]:
    del place
    ada = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    engine = {"name": "Engine", "entityType": "machine", "observations": []}
    works = {"from": "Ada", "to": "Engine", "relationType": "works on"}
    return [
        Call("create_entities", {"entities": [ada, engine]}),
        Call("create_relations", {"relations": [works]}),
        Call("add_observations", {"observations": [{"entityName": "Ada", "contents": ["counts"]}]}),
        Call("add_observations", {"observations": [{"entityName": "Nobody", "contents": ["x"]}]}, fails=True),
        Call("read_graph", {}),
        Call("search_nodes", {"query": "programs"}),
        Call("open_nodes", {"names": ["Ada"]}),
        Call("delete_observations", {"deletions": [{"entityName": "Ada", "observations": ["counts"]}]}),
        Call("delete_relations", {"relations": [works]}),
        Call("delete_entities", {"entityNames": ["Engine"]}),
        Call("read_graph", {}),
    ]


# --- Python: both eras, but for one


def _python(name: str, *arguments: str, folder: str = "servers") -> Callable[[Place], list[str] | None]:
    def command(place: Place) -> list[str] | None:
        program = tools.python_program(name, folder)
        return program and [*program, *(text.replace("{site}", str(place.site)) for text in arguments)]

    return command


def _git(place: Place) -> list[Call]:
    here: Object = {"repo_path": str(place.site)}
    return [
        Call("git_status", here),
        Call("git_diff_unstaged", here),
        Call("git_add", here | {"files": ["a.txt"]}),
        Call("git_diff_staged", here | {"context_lines": 0}),
        Call("git_reset", here),
        Call("git_add", here | {"files": ["."]}),
        Call("git_commit", here | {"message": "third: ünïcödé"}),
        Call("git_commit", here | {"message": "nothing is staged"}, fails=True),
        Call("git_log", here | {"max_count": 5}),
        Call("git_show", here | {"revision": "HEAD"}),
        Call("git_show", here | {"revision": "no-such-revision"}, fails=True),
        Call("git_diff", here | {"target": "HEAD~1"}),
        Call("git_create_branch", here | {"branch_name": "topic"}),
        Call("git_checkout", here | {"branch_name": "topic"}),
        Call("git_checkout", here | {"branch_name": "no-such-branch"}, fails=True),
        Call("git_branch", here | {"branch_type": "local"}),
        Call("git_status", {"repo_path": "/"}, fails=True),
    ]


def _prepare_git(place: Place) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(place.site), *arguments], check=True, env=place.environment())

    git("init", "--quiet", "--initial-branch=main")
    for text in ("one\n", "one\ntwo\n"):
        (place.site / "a.txt").write_text(text)
        git("add", ".")
        git("commit", "--quiet", "--message", f"{len(text)} bytes")
    (place.site / "a.txt").write_text("one\nTWO\n")


def _time(place: Place) -> list[Call]:
    del place
    tokyo = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    return [
        Call("get_current_time", {"timezone": "Europe/Zurich"}),
        Call("get_current_time", {"timezone": "Nowhere/None"}, fails=True),
        Call("convert_time", tokyo),
        Call("convert_time", tokyo | {"time": "25:61"}, fails=True),
    ]


def _fetch(place: Place) -> list[Call]:
    return [
        Call("fetch", {"url": f"{place.web}/page.html"}),
        Call("fetch", {"url": f"{place.web}/page.html", "raw": True, "max_length": 50, "start_index": 10}),
        Call("fetch", {"url": f"{place.web}/data.json"}),
        Call("fetch", {"url": f"{place.web}/private/page.html"}, fails=True),
        Call("fetch", {"url": f"{place.web}/nothing"}, fails=True),
    ]


def _sqlite(place: Place) -> list[Call]:
    del place
    return [
        Call("create_table", {"query": "CREATE TABLE cats (name TEXT, lives INTEGER)"}),
        Call("write_query", {"query": "INSERT INTO cats VALUES ('Mia', 9), ('Tom', 7)"}),
        Call("read_query", {"query": "SELECT * FROM cats ORDER BY lives"}),
        Call("read_query", {"query": "DROP TABLE cats"}),
        Call("list_tables", {}),
        Call("describe_table", {"table_name": "cats"}),
        Call("append_insight", {"insight": "Cats have nine lives."}),
    ]


CLOCK = "the clock"
SERVERS = (
    Server(
        name="everything",
        command=_npm("@modelcontextprotocol/server-everything"),
        revisions=(LEGACY,),
        calls=_everything,
        asks_first="roots/list",
        wrong=("get-sum",),
        varying=(
            Varying("tools/call get-resource-reference", TIME + rb" [AP]M", CLOCK),
            Varying("tools/call get-resource-reference", rb'"blob":"[^"]*"', f"{CLOCK}, in base64"),
            Varying("prompts/get resource-prompt", TIME + rb" [AP]M", CLOCK),
            Varying("resources/read demo://resource/dynamic/text", TIME + rb" [AP]M", CLOCK),
            Varying("resources/read demo://resource/dynamic/blob", rb'"blob":"[^"]*"', f"{CLOCK}, in base64"),
            Varying("tools/call trigger-url-elicitation", UUID, "a random id"),
            Varying("task", rb'"taskId":"[^"]+"', "a random id"),
            Varying("task", STAMP, CLOCK),
            Varying("notifications/tasks", rb'"taskId":"[^"]+"', "a random id"),
            Varying("notifications/tasks", STAMP, CLOCK),
            Varying("notifications/message", rb'"params":\{.*\}', "a random message of a random level"),
        ),
    ),
    Server(
        name="filesystem",
        command=_npm("@modelcontextprotocol/server-filesystem", "{site}"),
        revisions=(LEGACY, "2025-06-18"),
        calls=_files,
        prepare=_prepare_files,
        asks_first="roots/list",
        wrong=("read_file",),
        varying=(
            Varying(
                "tools/call get_file_info", rb"(created|modified|accessed): [^\\\"]*", "when the scratch file was made"
            ),
        ),
    ),
    Server(
        name="memory",
        command=_npm("@modelcontextprotocol/server-memory"),
        revisions=(LEGACY, "2024-11-05"),
        calls=_memory,
        wrong=("open_nodes",),
    ),
    Server(
        # Without a browser every call is answered with an error: 25 tools' worth of schemas and refusals.
        name="playwright",
        command=_npm(
            "@playwright/mcp", "--headless", "--isolated", "--executable-path", "/none", "--output-dir", "{site}"
        ),
        revisions=(LEGACY,),
        calls=lambda place: [Call("browser_navigate", {"url": f"{place.web}/page.html"}, fails=True)],
        wrong=("browser_resize",),
    ),
    Server(
        name="git",
        command=_python("mcp-server-git", "--repository", "{site}"),
        revisions=(LEGACY, MODERN),
        calls=_git,
        prepare=_prepare_git,
        wrong=("git_add",),
    ),
    Server(
        name="time",
        command=_python("mcp-server-time", "--local-timezone=UTC"),
        revisions=(LEGACY, MODERN),
        calls=_time,
        wrong=("convert_time",),
        varying=(
            Varying("tools/call get_current_time", STAMP, CLOCK),
            Varying("tools/call convert_time", STAMP, f"{CLOCK}: the time asked for, today"),
        ),
    ),
    Server(
        name="fetch",
        command=_python("mcp-server-fetch", "--allow-private-ips"),
        revisions=(LEGACY, MODERN),
        calls=_fetch,
        # With npm in its path it would install a package at its first call; without, it uses Python's own parser.
        environment=(("PATH", "/none"),),
        wrong=("fetch",),
    ),
    Server(
        name="sqlite",
        command=_python("mcp-server-sqlite", "--db-path", "{site}/cats.db", folder="servers-v1"),
        revisions=(LEGACY, "2025-06-18"),
        calls=_sqlite,
        wrong=("read_query",),
    ),
)


# --- a little web for the server that fetches

PAGES = {
    "/robots.txt": ("text/plain", "User-agent: *\nDisallow: /private/\n"),
    "/page.html": ("text/html", "<html><title>Cats</title><body><h1>Cats</h1><p>Nine lives.</p></body></html>"),
    "/private/page.html": ("text/html", "<p>not for robots</p>"),
    "/data.json": ("application/json", '{"lives": 9}'),
}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, text = PAGES.get(self.path, ("text/plain", "nothing here"))
        data = text.encode()
        self.send_response(200 if self.path in PAGES else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's word
        pass


@contextmanager
def web() -> Iterator[str]:
    """A web server on loopback; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
