"""What a run may call: the effective permissions, in two points narrower than for other sessions.

A `confirm` that stands in a body counts from when it is met, and the tests tool runs only commands that are listed for it.
Owns: these two. Must never: do I/O, or permit what the effective permissions do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from adjourn.aex import ConfirmStep, Document, Policy, Rule, glob_text, layer, merge, split_scope

MAKE = "make"
"""The tool name under which a `make` step is counted. No rule needs to allow it."""


class RunPermissions(msgspec.Struct):
    """The contract under the policy; without a policy (None) the contract alone counts."""

    effective: Policy
    listing: Policy
    """The layer that has to list commands: the policy, or the contract if there is no policy."""

    @classmethod
    def of(cls, policy: Policy | None, contract: Policy) -> RunPermissions:
        """The permissions of a run: the contract, narrowed by the policy if there is one."""
        return cls(merge(policy, contract), contract if policy is None else policy)

    def ask_before(self, document: Document, step: ConfirmStep) -> None:
        """From now on, ask before the calls that a `confirm` in a body names."""
        rules = layer(Document(source=document.source, tree=document.tree, steps=[step])).confirm
        self.effective = msgspec.structs.replace(self.effective, confirm=[*self.effective.confirm, *rules])

    def lists(self, tool: str, arguments: Mapping[str, Any], command: str) -> bool:
        """Whether a rule that permits the call names commands: by a scope, or by a condition on `cmd`."""
        given = {**arguments, "cmd": command}
        return any(
            Policy(allow=[rule]).judge_call(tool, given, [command], glob_text).effect == "allow"
            for rule in self.listing.allow
            if split_scope(rule.pattern)[1] or any(test.path == "cmd" for test in rule.where)
        )

    def for_make(self) -> Policy:
        """Permissions for a `make` step: it is only counted."""
        return msgspec.structs.replace(
            self.effective, allow=[Rule("allow", MAKE, "", 0)], deny=[], confirm=[]
        )
