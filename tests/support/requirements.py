"""What the proxy and the hook must hold to, row by row, and the mark by which a test claims a row.

Owns: the table. `test_proxy_requirements.py` checks that every row has a test, and that every mark names a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., object])

REQUIREMENTS = {
    "D1": "Each element of a JSON-RPC batch is gated by itself; revisions without batches refuse them whole.",
    "D2": "A line that two JSON parsers could read differently goes nowhere, is answered, and is written down.",
    "D3": "Spent calls belong to the task: resuming an older checkpoint refunds nothing.",
    "D4": "A checkpoint that was tampered with is refused whole, before any of it is applied.",
    "D5": "aex.review_task reads .aex files of the workspace, and answers alike for everything else.",
    "D6": "A policy or contract with an error stops the start, with every diagnostic on stderr and exit code 1.",
    "D7": "When the upstream cannot start, every request gets an error within a second, and the exit code is 1.",
    "D8": "When the client goes, a last checkpoint is made, the upstream is ended, by force if need be, exit code 0.",
    "D9": "Bytes pass unchanged; a message that must be edited keeps the text of every number.",
    "D10": "An odd message is answered with an error, and the proxy goes on.",
    "D16": "Calls that hooks let pass are counted in the store, by task, whatever session is named, also when they race.",
    "D30": "Requests other than tools/call pass unless a rule names them as mcp.…; then they are gated.",
    "D31": "Only forwarded calls are counted, each once.",
    "D32": "A tools/call without an id goes nowhere, and is written down.",
    "D33": "When the upstream dies, each pending request gets an error, effects are in doubt, the exit code is not 0.",
    "D35": "Only the answer to a tools/list is edited; meta-tools come once, and hide an upstream tool of their name.",
    "D36": "A tool name is a text of the tool-name alphabet; a deny also matches other cases and separators.",
    "D37": "Checkpoint files are replaced in one step, follow no link, and name the version before them.",
    "D38": "A hook answers in the shape that its client documents; the published shape is there on request.",
    "D40": "A call to be confirmed waits for a person: asked by elicitation, or from another terminal, or timed out.",
    "D42": "Rules can name meta-tools; by default they pass and cost nothing.",
    "D43": "Memory does not grow with the history, and what a resumed session is told is bounded.",
    "D44": "Only a line feed ends a message.",
    "D45": "aex.review_task calls valid exactly what the checker finds no error in.",
    "D11": "A scope holds for the places that a call leads to: links followed, `..` walked, every path argument.",
    "V1 where": "A condition looks at the arguments of the call: what cannot be told permits nothing and denies.",
    "V1 limit": "A rate admits no more calls in any period, by however many proxies and sessions of the task.",
    "V1 budget": "Minutes, tokens and money are spent like calls, and stay spent in the next session.",
    "V1 once": "An effect that may happen once is answered from the record the second time, in any session and era.",
    "V1 once doubt": "Whether such an effect happened is never guessed: a failure frees it, a doubt waits for a person.",
    "V1 checkpoint": "The checkpoint that a call waits for is in the store, signed, before the upstream sees the call.",
    "V1 share": "When a share of a budget is spent a checkpoint is made, once.",
    "V1 by": "A question for a person by name is answered by nobody else, and by no client.",
    "V1 silence": "Silence means what the rule says, after the time that it says.",
    "V1 observe": "A policy that observes stops nothing but a call in doubt and a protected place, and tells what it would.",
    "V1 reload": "An edited policy counts from the next call on; a broken edit, and an edited contract, change nothing.",
    "Record": "What an agent notes and asks is in its task's record, outlives its process, and is told to who resumes.",
    "End": "Whatever ends a session, the next one is told the last step that its agent reported, or a person edited.",
    "mcp__": "A hook knows the tools of MCP servers as SERVER.TOOL.",
}  # fmt: skip


def requirement(*ids: str) -> Callable[[Test], Test]:
    """Marks a test as one that fails when a row of the table is not kept."""
    unknown = [row for row in ids if row not in REQUIREMENTS]
    assert not unknown, unknown

    def mark(test: Test) -> Test:
        return test

    return mark
