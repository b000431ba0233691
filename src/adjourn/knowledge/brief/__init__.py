"""The brief: what the next agent receives before it continues.

`compose` has the order and the budget, `record_lines` the same for a hand-over, `resume_sections` and `knowledge_sections` what the sections say, `context` what they share.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.knowledge.brief.compose import (
        INTRODUCTION,
        MAX_TOKENS,
        REPLY_TAGS,
        STATE_RULES,
        TITLES,
        Tokenizer,
        brief,
        format_current_state,
        format_state_for_prompt,
    )
    from adjourn.knowledge.brief.record_lines import Recorded, RecordLine, recorded

__all__ = [
    "INTRODUCTION",
    "MAX_TOKENS",
    "REPLY_TAGS",
    "STATE_RULES",
    "TITLES",
    "RecordLine",
    "Recorded",
    "Tokenizer",
    "brief",
    "format_current_state",
    "format_state_for_prompt",
    "recorded",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "compose": (
                "INTRODUCTION",
                "MAX_TOKENS",
                "REPLY_TAGS",
                "STATE_RULES",
                "TITLES",
                "Tokenizer",
                "brief",
                "format_current_state",
                "format_state_for_prompt",
            ),
            "record_lines": ("RecordLine", "Recorded", "recorded"),
        },
    )
