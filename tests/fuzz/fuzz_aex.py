"""Coverage-guided fuzzing of the contract language with atheris: `make fuzz` (an hour; SECONDS=60 for a minute).

Any bytes are read as a policy and as a task: nothing raises, the tree gives the text back, what is formatted is read as
the same document, and a policy that was read judges without raising. hypothesis looks for the same in `make test`.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["adjourn.aex"]):
    from adjourn.aex import layer, merge
    from adjourn.aex.check import examine
    from adjourn.aex.format import formatted
    from adjourn.aex.tree import unparse
    from adjourn.errors import AdjournError


def one(data: bytes) -> None:
    text = data.decode(errors="replace").replace("\r\n", "\n")
    document = examine(text, "fuzz.aex")
    assert unparse(document.tree) == text
    policy = layer(document)
    for tool in ("file.write", "a", "mcp.x"):
        policy.judge_call(tool, {"path": "src/a", "cmd": "git push", "n": 3}, ("src/a",))
    merge(policy, policy)
    if not any(found.severity == "error" for found in document.findings):
        try:
            formatted(document)
        except AdjournError:
            return  # it refuses rather than change a meaning


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
