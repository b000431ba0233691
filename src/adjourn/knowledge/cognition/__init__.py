"""Cognitive sessions: what an agent knows, asks and intends, while it works and after a resume.

`store` is the session as a program uses it, `repository` stores it and its checkpoints in a `Store`.
"""
