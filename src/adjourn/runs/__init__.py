"""Running a task's steps, so that an interrupted run continues from the step it had reached.

    start         starts or resumes a run
    runner        options and life cycle of a run
    interpreter   the steps: branches, loops, checks, expressions
    step_calls    the calls of a step: permission, questions, answers; requests of `make` steps to a model
    journal       a run bound to its task's history
    model         the interface to a language model
    draft         drafts of contracts by a model
    tools         the built-in tools, on top of `subprocesses`

Must never: run a step that the policy does not permit, or one that is done already.
"""
