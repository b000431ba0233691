"""Work that other tools wrote down: published checkpoint folders, CONTINUUM documents, LangGraph checkpoints, hand-over pages.

Each format has a reader that returns a `ForeignWork`; `work.import_work` makes a task of it. What they read is hostile input.
"""
