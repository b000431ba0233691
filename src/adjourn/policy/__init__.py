"""What a call is and what guards it: its arguments, protected places, destructive calls, contracts and signatures.

Owns: reading a call and the permissions of a task. Must never: write an event.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.policy.arguments import UNKNOWN, CallPaths, call_paths, judge, paths_of
    from adjourn.policy.calls import (
        READING_VERBS,
        arguments_digest,
        encode_sorted,
        encoded,
        imitates_meta_tool,
        meta_tool,
        spellings,
    )
    from adjourn.policy.contract import (
        BrokenContractError,
        Contract,
        for_task,
        read_contract,
        reread_policy,
        unsigned,
    )
    from adjourn.policy.destructive import COMMANDS, DEFAULT, FILE, TOOLS, Matcher, Settings, read_settings
    from adjourn.policy.person_commands import (
        ALWAYS,
        AT_TERMINAL,
        BY_CLIENT,
        OUR_COMMAND,
        OUTSIDE_CLIENT,
        WHEN_SAID,
        WHEN_WRITING,
    )
    from adjourn.policy.principal import Principal
    from adjourn.policy.signatures import read_secret
    from adjourn.policy.tool_effects import Effect, ToolEffect, effect_of, reading_of, shared_words
    from adjourn.policy.unclear import ambiguous

__all__ = [
    "ALWAYS", "AT_TERMINAL", "BY_CLIENT", "COMMANDS", "DEFAULT", "FILE", "OUR_COMMAND", "OUTSIDE_CLIENT",
    "READING_VERBS", "TOOLS", "UNKNOWN", "WHEN_SAID", "WHEN_WRITING", "BrokenContractError", "CallPaths", "Contract", "Effect", "Matcher", "Principal",
    "Settings", "ToolEffect", "ambiguous", "arguments_digest", "call_paths", "effect_of", "encode_sorted", "encoded", "for_task", "imitates_meta_tool", "judge", "meta_tool", "paths_of",
    "read_contract", "read_secret", "read_settings", "reading_of", "reread_policy", "shared_words", "spellings", "unsigned",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {
        "arguments": ("CallPaths", "UNKNOWN", "call_paths", "judge", "paths_of"),
        "calls": ("READING_VERBS", "arguments_digest", "encode_sorted", "encoded", "imitates_meta_tool", "meta_tool", "spellings"),
        "contract": (
            "BrokenContractError", "Contract", "for_task", "read_contract", "reread_policy", "unsigned",
        ),
        "destructive": ("COMMANDS", "DEFAULT", "FILE", "Matcher", "Settings", "TOOLS", "read_settings"),
        "person_commands": ("ALWAYS", "AT_TERMINAL", "BY_CLIENT", "OUR_COMMAND", "OUTSIDE_CLIENT", "WHEN_SAID", "WHEN_WRITING"),
        "principal": ("Principal",),
        "signatures": ("read_secret",),
        "tool_effects": ("Effect", "ToolEffect", "effect_of", "reading_of", "shared_words"),
        "unclear": ("ambiguous",),
    })  # fmt: skip
