"""The meta-tools and what is told of tools: published fields and their order, bounds, names, edits of lists."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from adjourn.aex import from_text
from adjourn.checkpoints.folder_verification import verify
from support.proxy import ERAS, META_TOOLS, MODERN, NEW, Message, ProxyWorkspace, refused, text_of
from support.requirements import requirement

NUMBERS = b'"x-numbers":{"float":1.0,"long":12345678901234567890123,"exponent":1e2}'
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
CONTRACT = """task fix_test v0
goal "Fix the failing test with the smallest safe change."
use file.read, file.write, git.push
deny network.*
budget calls=20
confirm before file.write
do file.read(path="a") -> source
make patch: diff from source with:
  - keep it small
check patch is valid diff
return patch
"""


def _pages(client: Any) -> list[Message]:
    pages, cursor = [], None
    while True:
        pages.append(client.ask("tools/list", {"cursor": cursor} if cursor else {})["result"])
        cursor = pages[-1].get("nextCursor")
        if not cursor:
            return pages


# --- aex.checkpoint


@requirement("D37")
def test_a_checkpoint_has_the_published_answer_and_files(tmp_path: Path) -> None:
    """aex.checkpoint answers with the published text, and writes the published files."""
    with ProxyWorkspace(
        tmp_path, "allow echo", "allow file.read", "deny network.*", "budget calls=100"
    ) as work:
        client = work.client()
        for tool in ("echo", "network.fetch", "file.read"):
            client.call(tool)
        answer = client.call("aex.checkpoint", {"name": "fix-auth", "description": "Read, identified"})
        assert text_of(answer) == (
            '{\n  "path": ".aex/checkpoints/fix-auth/",\n'
            '  "message": "Checkpoint \\"fix-auth\\" saved to .aex/checkpoints/fix-auth/"\n}'
        )
        folder = work.root / ".aex/checkpoints/fix-auth"
        file = json.loads((folder / "checkpoint.json").read_text())
        published = ["name", "description", "timestamp", "callsUsed", "budget", "toolHistory"]
        assert list(file)[:6] == published
        assert (file["name"], file["description"], file["callsUsed"], file["budget"]) == (
            "fix-auth", "Read, identified", 2, 100,
        )  # fmt: skip
        assert STAMP.fullmatch(file["timestamp"])
        assert [{k: v for k, v in entry.items() if k != "timestamp"} for entry in file["toolHistory"]] == [
            {"tool": "echo", "decision": "forward"},
            {"tool": "network.fetch", "decision": "block", "reason": "deny_list"},
            {"tool": "file.read", "decision": "forward"},
        ]
        assert all(STAMP.fullmatch(entry["timestamp"]) for entry in file["toolHistory"])
        for line in (folder / "audit.jsonl").read_text().splitlines():
            assert {"event", "data", "timestamp"} <= json.loads(line).keys()


def test_what_was_not_given_is_absent_from_a_checkpoint(tmp_path: Path) -> None:
    """checkpoint.json has no member for a description or a budget that does not exist."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        client.meta("aex.checkpoint", name="a")
        file = json.loads((work.root / ".aex/checkpoints/a/checkpoint.json").read_text())
        assert list(file)[:4] == ["name", "timestamp", "callsUsed", "toolHistory"]


@requirement("D37", "D10")
def test_what_is_no_checkpoint_name_is_refused(tmp_path: Path) -> None:
    """A name that could be a path, is too long, or is no text is refused, and no file is written."""
    names: list[Any] = [
        "",
        "../x",
        "a/b",
        ".",
        "..",
        "a b",
        "ä",
        "x" * 65,
        "a\n",
        "a\0",
        5,
        None,
        ["a"],
        {"a": 1},
        True,
    ]
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        for name in names:
            for tool in ("aex.checkpoint", "aex.resume"):
                answer = client.call(tool, {"name": name})
                assert refused(answer), name
                assert text_of(answer).startswith("Meta-tool error: ")
        assert not (work.root / ".aex/checkpoints").exists()
        assert not (work.root / "x").exists()
        assert not refused(client.call("echo"))


def test_failures_of_meta_tools_are_protocol_errors_on_request(tmp_path: Path) -> None:
    """With `--errors jsonrpc`, a failed meta-tool has a JSON-RPC error without paths of the machine."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client("--errors", "jsonrpc")
        error = client.call("aex.resume", {"name": "none"})["error"]
        assert error["code"] == -32603
        assert error["message"].startswith("Meta-tool error: ")
        assert str(work.root) not in error["message"]


@requirement("D37")
def test_a_checkpoint_made_again_names_the_one_before_and_replaces_its_files_in_one_step(
    tmp_path: Path,
) -> None:
    """A second checkpoint of a name links to the first one, and its files replace the old ones atomically."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        client.meta("aex.checkpoint", name="a", description="one")
        folder = work.root / ".aex/checkpoints/a"
        inode = (folder / "checkpoint.json").stat().st_ino
        client.call("echo")
        client.meta("aex.checkpoint", name="a", description="two")
        assert (folder / "checkpoint.json").stat().st_ino != inode
        assert sorted(os.listdir(folder)) == ["audit.jsonl", "checkpoint.json"]
        first, second = work.facts("checkpoint.created")
        events = [event for event in work.events() if event.event == "checkpoint.created"]
        assert (first.previous, len(second.previous)) == ("", 64)
        assert events[1].seq > events[0].seq
        assert client.meta("aex.resume", name="a")["description"] == "two"


@requirement("D37")
@pytest.mark.parametrize(
    "link", [".aex/checkpoints", ".aex/checkpoints/a", ".aex/checkpoints/a/checkpoint.json"]
)
def test_checkpoints_are_written_through_no_link(tmp_path: Path, link: str) -> None:
    """A symbolic link at a checkpoint's folder or file is never followed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "checkpoint.json").write_text("theirs")
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        path = work.root / link
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(outside if path.suffix == "" else outside / "checkpoint.json")
        answer = client.call("aex.checkpoint", {"name": "a"})
        assert (outside / "checkpoint.json").read_text() == "theirs"
        assert os.listdir(outside) == ["checkpoint.json"]
        assert refused(answer) or not path.is_symlink()
        assert not refused(client.call("echo"))


# --- aex.resume


@pytest.mark.parametrize("era", ERAS)
def test_a_resume_has_the_published_fields_first_and_in_order(tmp_path: Path, era: str) -> None:
    """aex.resume answers with the published fields first, in their order, in every protocol era."""
    with ProxyWorkspace(
        tmp_path, "allow echo", "allow file.read", "deny network.*", "budget calls=100"
    ) as work:
        client = work.client()
        for tool in ("echo", "network.fetch", "file.read", "echo"):
            client.call(tool)
        client.meta("aex.checkpoint", name="fix", description="half")
        client.close()
        client = work.client(era=era, foreign=True)
        told = client.meta("aex.resume", name="fix")
        assert list(told)[:6] == [
            "name", "description", "toolsCalled", "callsUsed", "budgetRemaining", "auditSummary",
        ]  # fmt: skip
        assert (told["name"], told["description"]) == ("fix", "half")
        assert (told["toolsCalled"], told["callsUsed"], told["budgetRemaining"]) == (
            ["echo", "file.read"],
            3,
            97,
        )
        assert all(list(entry) == ["event", "data"] for entry in told["auditSummary"])
        assert told["auditSummary"][:3] == [
            {"event": "tool.allowed", "data": {"tool": "echo"}},
            {"event": "tool.denied", "data": {"tool": "network.fetch", "reason": "deny_list"}},
            {"event": "tool.allowed", "data": {"tool": "file.read"}},
        ]
        assert "inDoubt" not in told


def test_a_resume_leaves_out_what_there_is_not(tmp_path: Path) -> None:
    """aex.resume has no member for a description or a budget that does not exist."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        client.meta("aex.checkpoint", name="fix")
        told = client.meta("aex.resume", name="fix")
        assert "budgetRemaining" not in told
        assert "description" not in told


@requirement("D43")
def test_a_resume_answer_is_bounded_and_its_pages_tell_all(tmp_path: Path) -> None:
    """Each page of a long history has at most 8 KiB, and all pages together have each call once."""
    with ProxyWorkspace(tmp_path, "allow *", "deny secrets.*") as work:
        client = work.client()
        calls = [client.call_message("echo" if n % 3 else f"secrets.n{n}") for n in range(600)]
        client.post(*calls)
        for call in calls:
            client.answer(call["id"])
        client.meta("aex.checkpoint", name="long", description="d" * 1000)
        answer = client.call("aex.resume", {"name": "long"})
        told = json.loads(text_of(answer))
        assert len(text_of(answer).encode()) <= 8 * 1024
        pages = [told["auditSummary"]]
        while "more" in told:
            told = client.meta("aex.resume", name="long", more=told["more"])
            assert len(json.dumps(told, separators=(",", ":"))) <= 8 * 1024
            pages.append(told["auditSummary"])
        history = [entry for page in reversed(pages) for entry in page if entry["event"].startswith("tool.")]
        assert [entry["data"]["tool"] for entry in history] == [call["params"]["name"] for call in calls]


@requirement("D43", "D10")
def test_an_odd_cursor_is_no_trouble(tmp_path: Path) -> None:
    """A `more` that aex.resume never gave out is refused, or is past the end."""
    odd: list[Any] = ["\u00b2", "-1", "1.5", "x", "9" * 5000, " 1", "\u0661", 5, None, ["1"]]
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        client.meta("aex.checkpoint", name="a")
        for more in odd:
            assert refused(client.call("aex.resume", {"name": "a", "more": more})), more
        assert not refused(client.call("aex.resume", {"name": "a", "more": "9" * 18}))
        assert "proxy.bug" not in client.stderr()


@requirement("D43")
def test_a_resume_answer_with_many_doubts_and_tools_is_bounded(tmp_path: Path) -> None:
    """Many calls in doubt and many tools do not make the answer longer than 8 KiB."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client("--task", "t")
        for n in range(80):
            client.begin("silent", {"n": n, "text": "x" * 400})
        calls = [client.call_message(f"tool.{n}{'x' * 100}") for n in range(100)]
        client.post(*calls)
        for call in calls:
            client.answer(call["id"])
        client.meta("aex.checkpoint", name="a")
        client.kill()
        text = text_of(work.client("--task", "t").call("aex.resume", {"name": "a"}))
        told = json.loads(text)
        assert told["callsUsed"] == 180
        assert len(text.encode()) <= 8 * 1024
        assert told["inDoubt"]


@requirement("D4")
@pytest.mark.parametrize("field", ["callsUsed", "budget", "toolHistory", "name", "adjourn"])
@pytest.mark.parametrize("where", ["same store", "brought by git"])
def test_a_checkpoint_that_was_tampered_with_is_refused_whole(tmp_path: Path, field: str, where: str) -> None:
    """An edited checkpoint.json is refused, both beside its store and in a fresh clone."""
    with ProxyWorkspace(tmp_path, "allow echo", "budget calls=5") as work:
        client = work.client("--task", "t")
        for _ in range(3):
            client.call("echo")
        client.meta("aex.checkpoint", name="a")
        client.close()
        path = work.root / ".aex/checkpoints/a/checkpoint.json"
        file = json.loads(path.read_text())
        changes: dict[str, list[Any]] = {
            "callsUsed": [-5, 0, 10**30, None],
            "budget": [10**6],
            "toolHistory": [[]],
            "name": ["b"],
        }
        tried = []
        for value in changes.get(field, ["absent"]):
            changed = {key: item for key, item in file.items() if key != "adjourn" or field != "adjourn"}
            path.write_text(json.dumps(changed | ({} if field == "adjourn" else {field: value})))
            tried.append(value)
            if where == "brought by git":
                for name in ("adjourn.db", "adjourn.db-wal", "adjourn.db-shm"):
                    (work.root / ".aex" / name).unlink(missing_ok=True)
            client = work.client(foreign=True)
            answer = client.call("aex.resume", {"name": "a"})
            assert refused(answer), value
            assert text_of(answer).startswith("Meta-tool error: ")
            client.call("echo")
            client.kill()
            if where == "same store":
                assert work.ledger("t").calls_used == 3
            else:
                assert "t" not in work.tasks()
        assert tried


@requirement("D4")
def test_an_audit_log_that_was_tampered_with_is_refused_where_it_was_brought(tmp_path: Path) -> None:
    """An edited audit.jsonl is refused in a clone, and resumed again once it is restored."""
    with ProxyWorkspace(tmp_path, "allow echo", "budget calls=5") as work:
        client = work.client("--task", "t")
        client.call("echo")
        client.meta("aex.checkpoint", name="a")
        client.close()
        for name in ("adjourn.db", "adjourn.db-wal", "adjourn.db-shm"):
            (work.root / ".aex" / name).unlink(missing_ok=True)
        path = work.root / ".aex/checkpoints/a/audit.jsonl"
        good = path.read_bytes()
        for bad in (good.replace(b'"echo"', b'"ecko"'), good[good.index(b"\n") + 1 :], b"", good[:-40]):
            path.write_bytes(bad)
            client = work.client(foreign=True)
            assert refused(client.call("aex.resume", {"name": "a"}))
            client.kill()
        path.write_bytes(good)
        client = work.client(foreign=True)
        assert client.meta("aex.resume", name="a")["callsUsed"] == 1
        assert verify(str(path.parent)).checkpoint.event.task == "t"


@requirement("D4")
def test_a_checkpoint_of_another_user_needs_a_persons_trust(tmp_path: Path) -> None:
    """A checkpoint that an untrusted key signed is not resumed."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client(env={"ADJOURN_CONFIG": str(tmp_path / "bob")})
        client.call("echo")
        client.meta("aex.checkpoint", name="a")
        client.close()
        client = work.client("--store", "other.db", foreign=True)
        answer = client.call("aex.resume", {"name": "a"})
        assert refused(answer)
        assert "not trusted" in text_of(answer)


# --- aex.list_tasks, aex.review_task


def test_tasks_are_listed_in_the_published_order_and_shape(tmp_path: Path) -> None:
    """aex.list_tasks lists contracts, runs and checkpoints in the published order, with the published fields."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        for place in ("tasks", ".aex/runs"):
            (work.root / place).mkdir(exist_ok=True)
        (work.root / "tasks/fix-test.aex").write_text(CONTRACT)
        (work.root / "tasks/readme.md").write_text("no contract")
        (work.root / ".aex/runs/run-1.aex").write_text('task run_1 v0\ngoal "Run."\nuse echo\nreturn 1\n')
        client = work.client()
        client.call("echo")
        client.meta("aex.checkpoint", name="b", description="second")
        client.meta("aex.checkpoint", name="a", description="first")
        assert client.meta("aex.list_tasks") == {
            "tasks": [
                {
                    "name": "fix_test",
                    "path": "tasks/fix-test.aex",
                    "type": "task",
                    "goal": "Fix the failing test with the smallest safe change.",
                    "tools": ["file.read", "file.write", "git.push"],
                },
                {
                    "name": "run_1",
                    "path": ".aex/runs/run-1.aex",
                    "type": "run",
                    "goal": "Run.",
                    "tools": ["echo"],
                },
                {"name": "a", "path": ".aex/checkpoints/a/", "type": "checkpoint", "goal": "first"},
                {"name": "b", "path": ".aex/checkpoints/b/", "type": "checkpoint", "goal": "second"},
            ]
        }
        first = client.meta("aex.list_tasks")["tasks"][0]
        assert list(first) == ["name", "path", "type", "goal", "tools"]


def test_a_review_has_the_published_fields_in_order(tmp_path: Path) -> None:
    """aex.review_task answers with the published fields in their order."""
    with ProxyWorkspace(tmp_path, "allow file.*", "deny secrets.read", "budget calls=50") as work:
        (work.root / "tasks").mkdir()
        (work.root / "tasks/fix-test.aex").write_text(CONTRACT)
        client = work.client()
        told = client.meta("aex.review_task", task="tasks/fix-test.aex")
        assert list(told) == [
            "task", "goal", "requested", "denied", "effective", "checks", "makeSteps", "valid", "warnings",
        ]  # fmt: skip
        assert (told["task"], told["requested"]) == ("fix_test", ["file.read", "file.write", "git.push"])
        assert told["effective"] == {
            "allow": ["file.read", "file.write"],
            "deny": ["secrets.read", "network.*"],
            "confirm": ["file.write"],
            "budget": 20,
        }
        assert told["checks"] == ["patch is valid diff"]
        assert told["makeSteps"] == ["make patch: diff from source"]
        assert told["valid"] is True
        assert any("git.push" in warning for warning in told["warnings"])


@requirement("D45")
@pytest.mark.parametrize(
    "text",
    [CONTRACT, CONTRACT.replace("return patch", "return nothing_named"), "garbage\n", CONTRACT + "  odd\n"],
)
def test_a_review_calls_valid_what_the_checker_finds_no_error_in(tmp_path: Path, text: str) -> None:
    """A review says `valid` exactly if the checker finds no error, and warns of each one."""
    with ProxyWorkspace(tmp_path, "allow file.*") as work:
        (work.root / "a.aex").write_text(text)
        _, findings = from_text(text, "a.aex")
        errors = [finding for finding in findings if finding.severity == "error"]
        told = work.client().meta("aex.review_task", task="a.aex")
        assert told["valid"] is (not errors)
        assert len(told["warnings"]) >= len(errors)


def test_a_review_warns_that_a_required_signature_is_missing(tmp_path: Path) -> None:
    """Where the policy names signers: as the command line's review does, and only as long as it is so."""
    for number, (lines, warned) in enumerate((((), False), (("require signed by ann",), True))):
        with ProxyWorkspace(tmp_path / str(number), "allow file.*", *lines, version="v1") as work:
            (work.root / "a.aex").write_text(CONTRACT)
            warnings = work.client().meta("aex.review_task", task="a.aex")["warnings"]
            assert any("AEX150" in warning for warning in warnings) is warned


@requirement("D5")
def test_a_review_reads_contracts_of_the_workspace_only_and_tells_nothing_else(tmp_path: Path) -> None:
    """A review of anything but a contract file in the workspace fails, with one text for all reasons."""
    outside = tmp_path / "secret.aex"
    outside.write_text(CONTRACT)
    (tmp_path / "folder").mkdir()
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        (work.root / "notes.txt").write_text(CONTRACT)
        (work.root / "link.aex").symlink_to(outside)
        (work.root / "dir.aex").mkdir()
        (work.root / "bytes.aex").write_bytes(b"\xff\xfe")
        (work.root / "up").symlink_to(tmp_path)
        os.mkfifo(work.root / "pipe.aex")
        (work.root / "inner.aex").symlink_to(work.root / "notes.txt")
        client = work.client()
        answers = set()
        for path in (
            "/etc/passwd", "/etc/shadow.aex", "../secret.aex", str(outside), "link.aex", "up/secret.aex", "dir.aex",
            "absent.aex", "../absent.aex", "notes.txt", "pipe.aex", "bytes.aex", "", ".", "a\0.aex", "inner.aex",
            "../folder/x.aex", "~/x.aex", "tasks/../../secret.aex",
        ):  # fmt: skip
            answer = client.call("aex.review_task", {"task": path})
            assert refused(answer), path
            answers.add(text_of(answer).replace(repr(path), "PATH"))
        assert len(answers) == 1, answers
        for task in (5, None, ["a"]):
            assert refused(client.call("aex.review_task", {"task": task}))


# --- tools/list


@pytest.mark.parametrize("era", ERAS)
def test_hidden_tools_go_meta_tools_come_last_and_nothing_else_changes(tmp_path: Path, era: str) -> None:
    """tools/list lacks denied tools, has the meta-tools last, and keeps the bytes of all others."""
    with ProxyWorkspace(
        tmp_path, "allow *", "deny secrets.*", "deny slow", "confirm before file.write"
    ) as work:
        client = work.client(era=era)
        names = client.tools()
        assert names[:4] == ["file.read", "echo", "file.write", "network.fetch"]  # in the upstream's order
        assert "slow" not in names
        assert names[-len(META_TOOLS) :] == META_TOOLS
        line = next(line for line in reversed(client.received) if b'"tools"' in line)
        theirs = len(names) - len(META_TOOLS)
        assert line.count(NUMBERS) == theirs
        assert line.count(NUMBERS.split(b":", 1)[1]) == theirs + 1  # beside the list, too
        assert b"\\u00e9" in line
        assert list(json.loads(line)) == ["jsonrpc", "result", "id"]


def test_meta_tools_are_described_with_their_exact_inputs(tmp_path: Path) -> None:
    """Each meta-tool is listed with a schema of its exact arguments."""
    with ProxyWorkspace(tmp_path, "allow nothing.here") as work:
        client = work.client()
        (page,) = _pages(client)
        tools = {tool["name"]: tool for tool in page["tools"]}
        assert list(tools) == META_TOOLS
        inputs = {name: tool["inputSchema"] for name, tool in tools.items()}
        assert all(schema["type"] == "object" for schema in inputs.values())
        kinds = {
            name: {key: value.get("type", "enum") for key, value in schema["properties"].items()}
            for name, schema in inputs.items()
        }
        assert kinds == {
            "aex.checkpoint": {
                "name": "string",
                "description": "string",
                "progress": "array",
                "currentState": "array",
                "openQuestions": "array",
                "artifacts": "array",
                "resumptionPoint": "string",
            },
            "aex.resume": {"name": "string", "more": "string"},
            "aex.list_tasks": {},
            "aex.review_task": {"task": "string"},
            "adjourn.note": dict.fromkeys(
                ["facts", "assumptions", "questions", "goals", "decisions", "learnings"], "array"
            ),
            "adjourn.record": {"section": "string", "more": "string"},
            "adjourn.ask": {
                "question": "string",
                "context": "string",
                "options": "array",
                "priority": "enum",
            },
        }
        assert [schema.get("required", []) for schema in inputs.values()] == [
            ["name"],
            ["name"],
            [],
            ["task"],
            [],
            [],
            ["question"],
        ]


@requirement("D35")
@pytest.mark.parametrize("size", [1, 4, 7])
def test_meta_tools_come_once_on_the_last_page(tmp_path: Path, size: int) -> None:
    """In a list of several pages, the meta-tools are on the last page only."""
    with ProxyWorkspace(tmp_path, "allow *", "deny secrets.*") as work:
        client = work.client(server=["--page", str(size)])
        pages = _pages(client)
        assert len(pages) > 1
        names = [tool["name"] for page in pages for tool in page["tools"]]
        assert names[-len(META_TOOLS) :] == META_TOOLS
        assert [name for name in names if name.startswith(("aex.", "adjourn."))] == META_TOOLS
        assert len(names) == len(set(names))
        assert "secrets.read" not in names


@requirement("D35")
def test_an_upstream_tool_named_like_a_meta_tool_is_hidden_and_reported(tmp_path: Path) -> None:
    """A server's tool with the name of a meta-tool is not listed, is never called, and is logged."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(server=["--tools", "shadow"])
        assert client.tools().count("aex.resume") == 1
        assert "tool.shadowed" in client.stderr()
        assert refused(client.call("aex.resume", {"name": "none"}))
        assert work.executed() == []


@requirement("D35")
def test_only_the_answer_to_a_list_of_tools_is_edited(tmp_path: Path) -> None:
    """A result that looks like a list of tools passes unchanged unless it answers tools/list."""
    fake = '{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"secrets.read"},  1.0]}}'
    with ProxyWorkspace(tmp_path, "allow *", "deny secrets.*") as work:
        client = work.client()
        request = client.begin("send", {"lines": [fake]})
        client.answer(request)
        assert client.received[-1] == fake.replace("$ID", str(request)).encode() + b"\n"
        assert client.ask("x/list")["result"]["tools"] == ["not a list of tools"]


@requirement("D35")
def test_an_error_answer_to_a_list_of_tools_stays_one(tmp_path: Path) -> None:
    """An error of the server in answer to tools/list reaches the client."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(server=["--page", "4"])
        assert client.ask("tools/list", {"cursor": "odd"})["error"]["code"] == -32602


@pytest.mark.parametrize("era", [NEW, MODERN])
def test_an_upstream_without_tools_gets_the_capability_and_the_meta_tools(tmp_path: Path, era: str) -> None:
    """In front of a server without tools, the proxy announces tools and lists its own."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(era=era, server=["--tools", "none"])
        capabilities = client.greeting["result"]["capabilities"]
        assert set(capabilities) == {"resources", "prompts", "completions", "logging", "tools"}
        result = client.ask("tools/list")["result"]
        assert [tool["name"] for tool in result["tools"]] == META_TOOLS
        assert (result.get("resultType"), "ttlMs" in result, result.get("cacheScope")) == (
            ("complete", True, "private") if era == MODERN else (None, False, None)
        )
        assert client.meta("aex.list_tasks") == {"tasks": []}


# --- names


@pytest.mark.parametrize(
    ("name", "style", "underscored", "era"),
    [
        ("claude-code", "auto", False, MODERN),
        ("codex-mcp-client", "auto", False, NEW),
        ("claude-ai", "auto", True, NEW),
        ("Claude-AI", "auto", True, MODERN),
        ("copilot-cli", "auto", True, NEW),
        ("claude-ai", "dotted", False, NEW),
        ("claude-code", "underscored", True, MODERN),
    ],
)
def test_clients_that_refuse_dots_get_underscores(
    tmp_path: Path, name: str, style: str, underscored: bool, era: str
) -> None:
    """Clients that cannot call names with dots get names with underscores, unless an option says otherwise."""
    with ProxyWorkspace(tmp_path, "allow nothing.here") as work:
        client = work.client("--tool-names", style, name=name, era=era)
        expected = [tool.replace(".", "_") for tool in META_TOOLS] if underscored else META_TOOLS
        assert client.tools() == expected


def test_both_spellings_are_accepted_from_everyone(tmp_path: Path) -> None:
    """A meta-tool can be called with dots and with underscores, whatever was listed."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        assert client.meta("aex_checkpoint", name="a")["path"] == ".aex/checkpoints/a/"
        assert client.meta("aex_resume", name="a")["name"] == client.meta("aex.resume", name="a")["name"]
        assert client.meta("aex_list_tasks") == client.meta("aex.list_tasks")


def test_names_that_clients_cannot_tell_apart_are_reported(tmp_path: Path) -> None:
    """Two tools whose names differ only in letter case or separator are logged as a collision."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(server=["--tools", "twin"])
        client.tools()
        assert "tool.collision" in client.stderr()
