"""A narrower policy from what was called."""

from __future__ import annotations

import pytest

from adjourn.errors import InvalidError
from adjourn.setup.tightening import ToolUse, tightened

POLICY = """\
policy work v1

# what it may do
allow file.read, file.write, tools.search, web.fetch
  allow notes.*
allow shell.exec where command ~ "^ls"
deny secrets.read

# a person is asked
confirm before file.write
"""


def use(name: str, calls: int, *paths: str) -> ToolUse:
    server, _, tool = name.rpartition("/")
    found = ToolUse(server, tool)
    for _ in range(calls):
        found.count(paths)
    return found


USES = [use("file.read", 20), use("file.write", 5, "src/a.py", "src/b/c.py"), use("me/notes.get", 2)]


def test_a_policy_is_narrowed_to_what_was_called() -> None:
    """What was never called becomes a comment, a wildcard names, a common folder a scope; all else stays where it is."""
    found = tightened(POLICY, "p.aex", USES)
    assert found.text == (
        POLICY.replace(
            "allow file.read, file.write, tools.search, web.fetch",
            "# Never called: allow web.fetch\nallow file.read, file.write:src/**, tools.search",
        )
        .replace("notes.*", "me.notes.get")
        .replace("allow shell", "# Never called: allow shell")
    )
    assert [(one.rule, one.calls) for one in found.proposals] == [
        ("file.write", 5), ("web.fetch", 0), ("notes.*", 2), ("shell.exec", 0),
    ]  # fmt: skip
    assert tightened(found.text, "p.aex", USES).text == found.text


def test_an_allow_for_tools_of_no_server_is_not_narrowed_to_those_of_a_server() -> None:
    """`git.*` was never for the server `git`: its calls make no rule of it, and no rule for adjourn's own tool of their name."""
    text = "policy work v1\n\nmode observe\n\nallow git.*\n"
    uses = [use("git/git_push", 30), use("git.status", 2), use("git/status", 3)]
    found = tightened(text, "p.aex", uses)
    assert "allow git.status\n" in found.text
    assert "\nallow git.git_push\nconfirm before git.git_push\n" in found.text
    assert [(one.rule, one.text) for one in found.proposals][-1] == (
        "git.status", "stays refused (it is called as a tool of no server)",
    )  # fmt: skip


@pytest.mark.parametrize(
    "paths",
    [("src/a.py", "docs/b.md"), ("src/a.py", "b.md"), ("/etc/passwd",), ("../x/y",), (), ("a*b/c",), ("a b/c",)],
)
def test_no_scope_is_proposed_where_none_is_obvious(paths: tuple[str, ...]) -> None:
    """Two folders, a file beside them, a place outside, an unknown place, a name that is no plain glob."""
    assert "file.write:" not in tightened(POLICY, "p.aex", [use("file.write", 5, *paths)]).text


def test_a_few_calls_prove_nothing() -> None:
    """Below 20 recorded calls, nothing counts as never called."""
    assert tightened(POLICY, "p.aex", [use("file.read", 19)]).text == POLICY
    assert "# Never called" in tightened(POLICY, "p.aex", [use("file.read", 20)]).text


def test_what_an_observing_policy_let_pass_is_allowed_by_its_effect() -> None:
    """Reads are allowed, writes with a confirm; what is named after destroying stays refused. An enforcing policy gets no wider."""
    called = [use("inv/list_items", 4), use("inv/add_item", 1), use("inv/remove_item", 1)]
    assert tightened(POLICY, "p.aex", called).text == POLICY
    found = tightened(POLICY + "mode observe\n", "p.aex", called)
    assert found.text.endswith("allow inv.add_item\nconfirm before inv.add_item\nallow inv.list_items\n")
    assert [one.text for one in found.proposals] == [
        "allowed, with a confirm (name: add)", "allowed (name: list)", "stays refused (name: remove)",
    ]  # fmt: skip
    assert tightened(found.text, "p.aex", called).text == found.text


def test_a_policy_with_errors_is_not_touched() -> None:
    """Nobody could tell what it would mean."""
    with pytest.raises(InvalidError, match="adjourn policy check"):
        tightened("policy p v1\nalow x\n", "p.aex", USES)
