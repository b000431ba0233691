"""`adjourn restore`."""

from __future__ import annotations

import click

from adjourn.checkpoints import page_archive
from adjourn.cli.shared.context import example, for_machines, in_folder
from adjourn.cli.shared.output import safe, say, say_json
from adjourn.errors import NotFoundError, UsageError
from adjourn.host import workspace_of


@click.command(epilog=example("adjourn restore security-review"))
@click.argument("project", default="")
@in_folder
@for_machines
def restore(project: str, *, as_json: bool) -> None:
    """Make the last page of an archived PROJECT the active one again, so that the next session continues with it.

    The archive stays as it is. PROJECT may be left out when there is only one.
    """
    root = workspace_of().tree
    there = page_archive.projects(root)
    if not there:
        raise NotFoundError(
            "no project is archived here", "archive finished work: adjourn archive --project NAME"
        )
    if not project and len(there) != 1:
        raise UsageError(
            f"{len(there)} projects are archived, and none is named", f"name one: {', '.join(there[:20])}"
        )
    path = page_archive.restore(root, project or there[0])
    if as_json:
        say_json(project=project or there[0], page=path)
    else:
        say(f"restored: {path} is active again (from {safe(page_archive.folder_of(project or there[0]))}/)")
