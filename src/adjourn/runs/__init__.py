"""Running a task's steps, so that an interrupted run continues from the step it had reached.

    start         starts or resumes a run
    runner        options and life cycle of a run
    interpreter   the steps: branches, loops, checks
    step_calls    the calls of a step: permission, questions, answers
    journal       a run bound to its task's history
    expressions   values and conditions
    tools         the built-in tools, on top of `patches` and `subprocesses`
    registry      the tools of a remote registry
    make_step     `make`: the request to a model

Must never: run a step that the policy does not permit, or one that is done already.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.runs.cancellation import Stop
    from adjourn.runs.refs import name_of
    from adjourn.runs.runner import Options, Run, RunOutcome
    from adjourn.runs.start import resume_run, start_run
    from adjourn.runs.step_calls import AskPerson, BlockedError, Emit
    from adjourn.runs.subprocesses import ProgramError, run_program
    from adjourn.runs.tools import Tool

__all__ = [
    "AskPerson",
    "BlockedError",
    "Emit",
    "Options",
    "ProgramError",
    "Run",
    "RunOutcome",
    "Stop",
    "Tool",
    "name_of",
    "resume_run",
    "run_program",
    "start_run",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {
        "cancellation": ("Stop",),
        "refs": ("name_of",),
        "runner": ("Options", "Run", "RunOutcome"),
        "start": ("resume_run", "start_run"),
        "step_calls": ("AskPerson", "BlockedError", "Emit"),
        "subprocesses": ("ProgramError", "run_program"),
        "tools": ("Tool",),
    })  # fmt: skip
