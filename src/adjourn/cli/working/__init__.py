"""Commands of the help group "Working": the edges, and what happens to a task; `run` and `settle` too."""
