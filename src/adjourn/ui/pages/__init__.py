"""The pages, in the order of the navigation: queries in a module here, and a template."""

from __future__ import annotations

from adjourn.ui.pages import checkpoint, cognition, inbox, now, policy, record, task
from adjourn.ui.site import WebPage

PAGES: tuple[WebPage, ...] = (
    inbox.PAGE,
    now.PAGE,
    now.TASKS,
    checkpoint.PAGE,
    record.PAGE,
    policy.PAGE,
    task.PAGE,
    cognition.PAGE,
    task.HANDOVERS,
    policy.ALWAYS,
)
OF_A_TEAM: tuple[WebPage, ...] = (
    inbox.PAGE,
    now.PAGE,
    now.TASKS,
    record.PAGE,
    task.PAGE,
    cognition.PAGE,
    task.HANDOVERS,
)
"""What a person of a team gets, with its own tasks: no page that reads or writes the workspace's files and policy."""
