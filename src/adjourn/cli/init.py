"""`adjourn init`."""

from __future__ import annotations

import os

import click

from adjourn.cli.output import say, say_json
from adjourn.cli.place import example, for_machines, in_folder


@click.command(epilog=example("adjourn init --policy", "adjourn init --task fix-test"))
@click.option("--policy", is_flag=True, help="Write .aex/policy.aex: what agents may do in this workspace.")
@click.option(
    "--task",
    default="",
    metavar="NAME",
    help="Write tasks/NAME.aex with sample inputs (default: sample-task).",
)
@in_folder
@for_machines
def init(*, policy: bool, task: str, as_json: bool) -> None:
    """Write a first policy, or a sample task. What is there already is never overwritten."""
    from adjourn.aex import templates  # noqa: PLC0415  # not for --help
    from adjourn.aex.policy import discover  # noqa: PLC0415
    from adjourn.engine.workspace import create_file, make_folder  # noqa: PLC0415

    files: dict[str, str] = {}
    there: list[str] = []
    if policy:
        found = discover(".")
        if found is None:
            files[".aex/policy.aex"] = templates.POLICY
        else:
            there.append(os.path.normpath(found))
    if task or not policy:
        name = templates.safe_name(task or "sample-task")
        files[f"tasks/{name}.aex"] = templates.sample_task(name)
        files[f"tasks/{name}.inputs.json"] = templates.SAMPLE_INPUTS
        files[f"tasks/{name}.policy.json"] = templates.SAMPLE_JSON_POLICY
    written: list[str] = []
    for path, text in files.items():
        folder = make_folder(".", os.path.dirname(path))
        made = create_file(folder, os.path.basename(path), text.encode())
        (written if made else there).append(path)
    if as_json:
        say_json({"written": written, "skipped": there})
        return
    for path in written:
        say(f"written: {path}")
    for path in there:
        say(f"skipped: {path} is there already")
    if policy and written:
        say("  edit it, then see what it permits: adjourn effective")
