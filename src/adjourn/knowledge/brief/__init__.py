"""The brief: what the next agent is told before it goes on.

`text` has the order and the budget, `going_on` and `known` what the sections say, `matter` what they share.
"""

from adjourn.knowledge.brief.brief import INTRODUCTION, REPLY_TAGS, TITLES, brief, format_state_for_prompt

__all__ = ["INTRODUCTION", "REPLY_TAGS", "TITLES", "brief", "format_state_for_prompt"]
