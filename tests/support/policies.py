"""The permissions of a policy that is written in a test, and a policy of a workspace (`POLICY`)."""

from __future__ import annotations

from adjourn.aex import Policy, from_text

POLICY = """\
policy workspace v0

goal "What an agent may do in this workspace."

allow file.read, file.write, git.*, tests.run:npm test*, tests.run:pytest*
deny network.*, secrets.read

budget calls=100

confirm before file.write
"""


def policy_of(*lines: str, version: str = "v0") -> Policy:
    """The permissions of a policy with these lines, which begin in line 4."""
    policy, findings = from_text("\n".join([f"policy work {version}", "", 'goal "do it"', *lines, ""]), "p.aex")
    assert findings == []
    return policy
