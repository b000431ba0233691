"""Tools in a hand-over have the names under which the reader can call them."""

from __future__ import annotations

from adjourn.handover.names import ToolNames
from adjourn.tasks.entries import FailedStep, OpenCall
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.troubles import open_troubles
from support.cases import for_each


def open_call(server: str, tool: str) -> OpenCall:
    return OpenCall(call="c", tool=tool, digest="d", effectful=True, session="s", since="2026", server=server)


@for_each(
    ("called", "seen", "full", "expected"),
    [
        # the name that tools/list shows, whatever dots it has
        (["s.file.read"], {"s.file.read": "file.read"}, "s.file.read", "file.read"),
        # of two servers of the task, each by its full name
        (["a.list", "b.list"], {"a.list": "list", "b.list": "list"}, "a.list", "a.list"),
        # a tool that no event names any more, but whose definition the task knows
        (["s.file.read", "s.file.write"], {"s.file.write": "file.write"}, "s.file.read", "file.read"),
        # a tool whose own name begins like its server
        (["file.read"], {"file.read": "file.read"}, "file.read", "file.read"),
        # nothing is known of it
        (["x.y"], {}, "x.y", "x.y"),
        # only a call in doubt names it
        ([], {}, "s.db.migrate", "db.migrate"),
    ],
)
def test_a_tool_is_named_as_the_reader_lists_it(
    called: list[str], seen: dict[str, str], full: str, expected: str
) -> None:
    """The server's own name for it; with the server's name only where two servers of the task have such a tool."""
    ledger = Ledger(task="t", tools=dict.fromkeys(called, 1), definitions={"command file.read": "d"})
    ledger.doubts["c"] = open_call("s", "db.migrate")
    assert ToolNames(ledger, seen)(full) == expected
    assert ToolNames(ledger, seen, are_joined=True)(full) == full


def test_a_step_that_failed_is_told_by_the_reader_s_name() -> None:
    """So is one that failed in an earlier session, and that nothing else names."""
    ledger = Ledger(task="t")
    for steps, tool in ((ledger.failed, "site.deploy"), (ledger.red, "tests.run")):
        steps["c"] = FailedStep(call=open_call("workbench", tool))
    troubles = open_troubles(ledger, (), ToolNames(ledger, {}).of)
    assert [trouble.what for trouble in troubles] == ["site.deploy failed", "tests.run failed"]
