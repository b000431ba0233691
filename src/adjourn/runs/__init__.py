"""Running a task's steps, so that a run which is cut off anywhere goes on from the step it had reached.

`begin` starts or resumes a run, `steps` interprets it, `journal` binds it to its task's history. What a step needs has a
room of its own: `values` (expressions, conditions), `permission`, `tools`, `patches`, `programs`, `remote`, `making`.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.runs.cancellation import Stop
    from adjourn.runs.journal import name_of
    from adjourn.runs.runner import Options, Outcome, Run
    from adjourn.runs.step_calls import AskPerson, BlockedError, Emit
    from adjourn.runs.tools import Tool

__all__ = [
    "AskPerson",
    "BlockedError",
    "Emit",
    "Options",
    "Outcome",
    "Run",
    "Stop",
    "Tool",
    "name_of",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "cancellation": ("Stop",),
            "journal": ("name_of",),
            "runner": ("Options", "Outcome", "Run"),
            "step_calls": ("AskPerson", "BlockedError", "Emit"),
            "tools": ("Tool",),
        },
    )
