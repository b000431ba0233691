"""The pages, in the order of the navigation: each is a module of queries here, and a template of the same name."""

from __future__ import annotations

from adjourn.ui.pages import always, checkpoint, cognition, handover, inbox, now, policy, record, task, tasks
from adjourn.ui.site import WebPage

PAGES: tuple[WebPage, ...] = (
    inbox.PAGE,
    now.PAGE,
    tasks.PAGE,
    checkpoint.PAGE,
    record.PAGE,
    policy.PAGE,
    task.PAGE,
    cognition.PAGE,
    handover.PAGE,
    always.PAGE,
)
OF_A_TEAM: tuple[WebPage, ...] = (
    inbox.PAGE,
    now.PAGE,
    tasks.PAGE,
    record.PAGE,
    task.PAGE,
    cognition.PAGE,
    handover.PAGE,
)
"""What a person of a team gets, with its own tasks: no page that reads or writes the workspace's files and policy."""
