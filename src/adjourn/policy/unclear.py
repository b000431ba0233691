"""Arguments that a rule and a server could read differently, since two of their keys are one to some reader of JSON.

Owns: where a rule looks. Must never: examine a value.
"""

from __future__ import annotations

from collections.abc import Mapping

from adjourn.aex import Policy
from adjourn.policy.protected import argument_key, is_read_key
from adjourn.text import alike, fold_key


def ambiguous(policy: Policy, tool: str, arguments: Mapping[str, object]) -> tuple[str, str] | None:
    """Two keys that are one to some reader of JSON, where a rule for the tool or the search for places looks; None if there are none.

    The rule would examine one of them, and the server could act on the other. Alike keys in other data are no matter.
    """
    if found := alike(key for key in arguments if is_read_key(argument_key(key))):
        return found
    for path in policy.arguments_read(tool):
        level: list[object] = [arguments]
        for part in path:
            inner: list[object] = []
            for value in level:
                values = value if isinstance(value, list | tuple) else [value]
                for one in values:
                    if isinstance(one, Mapping):
                        keys = [key for key in one if fold_key(key) == fold_key(part)]
                        if found := alike(keys):
                            return found
                        inner += (one[key] for key in keys)
                    elif isinstance(one, list | tuple):
                        level.append(one)  # a list in a list stands for its elements
            level = inner
    return None
