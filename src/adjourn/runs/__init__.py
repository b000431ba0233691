"""Running a task's steps, so that a run which is cut off anywhere goes on from the step it had reached.

`begin` starts or resumes a run, `steps` interprets it, `journal` binds it to its task's history. What a step needs has a
room of its own: `values` (expressions, conditions), `permission`, `tools`, `patches`, `programs`, `remote`, `making`.
"""
