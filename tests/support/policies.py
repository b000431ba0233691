"""The permissions of a policy that is written in a test."""

from __future__ import annotations

from adjourn.aex import Policy, from_text


def policy_of(*lines: str, version: str = "v0") -> Policy:
    """The permissions of a policy with these lines, which begin in line 4."""
    policy, findings = from_text(
        "\n".join([f"policy work {version}", "", 'goal "do it"', *lines, ""]), "p.aex"
    )
    assert findings == []
    return policy
