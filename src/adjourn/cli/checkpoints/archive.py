"""`adjourn archive`."""

from __future__ import annotations

import click

from adjourn.checkpoints import page_archive, page_files
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import counted, safe, say, say_json
from adjourn.errors import NotFoundError


@click.command(epilog=example("adjourn archive", "adjourn archive --project security-review"))
@click.argument("task", default="")
@click.option(
    "--project",
    default="",
    metavar="NAME",
    help="Name of the project (default: the first words of the mission).",
)
@at_store
@for_machines
def archive(context: CommandContext, task: str, *, project: str, as_json: bool) -> None:
    """Move the pages of TASK from tmp/ to output/PROJECT/checkpoints/, with an index.

    TASK is an id; without it, the task of the active page. The history stays in the store. Run the command again if it was interrupted.
    """
    found = next(
        (page for page in page_files.search(context.tree).pages if not task or page.task.startswith(task)),
        None,
    )
    if found is None and not (task and project):
        what = f"task {task} has no page" if task else "there is no page that can be read"
        raise NotFoundError(
            what, "list the pages: adjourn checkpoint; for an archived one, give TASK and --project"
        )
    chosen = found.task if found else task
    name = project or (page_archive.project_of(found) if found else "")
    done = page_archive.archive(context.tree, chosen, name, context.store_or_none())
    if as_json:
        say_json(task=chosen, project=name, folder=done.folder, moved=done.moved, pages=len(done.entries))
    else:
        say(
            f"archived: {counted(len(done.moved), 'page')} of task {safe(chosen)} to {done.folder}/ ({len(done.entries)} there)"
        )
