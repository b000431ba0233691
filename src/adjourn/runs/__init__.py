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
