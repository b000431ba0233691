"""The brief: what the next agent receives before it continues.

`compose` has the order and the budget; `resume_sections` and `knowledge_sections` say what the sections and the lines of a hand-over say.
"""
