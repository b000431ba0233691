"""The exit code that a shell's answer states, in the forms that clients and servers use."""

from __future__ import annotations

from typing import Any

import msgspec

from adjourn.text.command_lines import exit_code_of
from support.cases import for_each


def _result(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


@for_each(
    ("answer", "code"),
    [
        ("Exit code: 2\nOutput:\nno", 2),
        ("1 failed\nexit code: 1", 1),
        ("it said Exit code: 1", 0),
        ("Exit code: 0\nOutput:\nExit code: 1", 0),
        ({"exit_code": 3}, 3),
        ({"exit_code": "3", "metadata": [1]}, 0),
        ({"exit_code": True}, 0),
        ({"metadata": {"exit_code": 4}}, 4),
        (_result("no", structuredContent={"exitCode": 5}), 5),
        (_result('{"stdout":"no","returncode":6}'), 6),
        (_result("Command failed with exit code 7\nno"), 7),
        (_result("no", "[exit code: 8]"), 8),
        (_result("ok", structuredContent={"result": "ok"}), 0),
        (_result("a\nexit code: 9\nb"), 0),
        (_result(*["x"] * 9, "Return code: 10"), 10),
        ([1], 0),
        (None, 0),
    ],
)
def test_an_answer_states_its_exit_code(answer: object, code: int) -> None:
    """It is a member, or the first or the last line of the text; what stands elsewhere is the program's output."""
    assert exit_code_of(msgspec.json.encode(answer)) == code


def test_what_is_no_json_states_nothing() -> None:
    """Broken and deeply nested answers are no errors."""
    for answer in (b"", b"{", b"\xff", b'"\xff"', b"[" * 100_000, b'{"metadata":' + b"[" * 100_000):
        assert exit_code_of(answer) == 0
