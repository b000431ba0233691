"""`adjourn review`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from adjourn.aex import reviewed
from adjourn.cli.app import main
from adjourn.cli.shared.context import example, for_machines, in_folder, with_model, with_policy
from adjourn.cli.shared.documents import from_here, policy_for, text_of
from adjourn.cli.shared.output import complain, safe, say, say_facts, say_json
from adjourn.errors import InvalidError, UsageError
from adjourn.host import workspace_of
from adjourn.policy import unsigned

if TYPE_CHECKING:
    from adjourn.aex import Review


@click.command(
    epilog=example("adjourn review tasks/fix-test.aex", "adjourn review tasks/fix-test.aex --run --yes")
)
@click.argument("file", metavar="FILE")
@with_policy
@click.option(
    "--run",
    "run_it",
    is_flag=True,
    help="Run the task after you confirm, if the policy refuses nothing of it.",
)
@click.option("--yes", is_flag=True, help="With --run: do not ask, and approve each confirmation in the run.")
@click.option("--inputs", default="", metavar="FILE", help="With --run: its inputs, as JSON.")
@with_model("answers `make` steps, with --run")
@click.option("--auto-confirm", is_flag=True, help="With --run: approve each confirmation in the run.")
@in_folder
@for_machines
def review(
    file: str, *, policy: str, run_it: bool, yes: bool, auto_confirm: bool, as_json: bool, **passed: str
) -> int:
    """Show what a task requests and what the policy grants of it; also its checks, `make` steps and confirmations.

    Exit code 1 when the task is not valid, or asks for something that the policy refuses; such a task is not run.
    """
    under = policy_for(policy)
    root = workspace_of().root
    text = text_of(file, root)
    told = reviewed(
        text,
        os.path.relpath(file),
        under.policy if under else None,
        policy_source=under.policy_source if under else "",
        refusals=unsigned(root, from_here(file, root), text, under.policy, file) if under else (),
    )
    if as_json:
        say_json(msgspec.to_builtins(told))
    else:
        _print(told)
    runs = told.valid and told.runs_under_policy
    if not run_it or not runs:
        if run_it:
            complain(f"{safe(file)} is not run", "fix what the review warns about")
        return 0 if runs else 1
    if not yes:
        _ask(file)
        if text_of(file, root) != text:
            raise InvalidError(f"{file} changed while you read its review", "review it again")
    named = {"policy": policy, **passed}
    options = [
        word for name, value in named.items() if value for word in (f"--{name.replace('_', '-')}", value)
    ]
    return _run([file, *options, *(["--auto-confirm"] if yes or auto_confirm else [])])


def _ask(file: str) -> None:
    """Returns when a person says yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("there is no terminal to ask for confirmation on", "run it with --yes")
    click.confirm(f"\nRun {safe(file)}?", abort=True)


def _run(arguments: Sequence[str]) -> int:
    return main(["run", *arguments])


def _print(told: Review) -> None:
    runs = told.valid and told.runs_under_policy
    say(f"Status: {_status(told)}", "green" if runs else "red")
    head = [
        ("Task:", told.task),
        ("Goal:", told.goal),
        ("File:", told.source.task),
        ("Policy:", told.source.policy),
    ]
    say_facts(*head)
    effective = told.effective
    budget = [] if effective.budget is None else [f"calls={effective.budget}"]
    sections = {
        "Requested": told.requested,
        "Denied by the task": told.denied,
        "Effective: allowed": effective.allow,
        "Effective: denied": effective.deny,
        "Effective: asked for": effective.confirm,
        "Effective: budget": budget,
        "Checks": told.checks,
        "Made by a model": told.make_steps,
        "Confirmations in the task": told.confirm_required,
        "Warnings": told.warnings,
    }
    for title, lines in sections.items():
        if lines:
            say(f"\n{title}:")
        for line in lines:
            say(f"  {safe(line)}")


def _status(told: Review) -> str:
    policy = safe(told.source.policy)
    if not told.valid:
        return "not valid, would not run"
    if not told.runs_under_policy:
        return f"valid, but {policy} refuses something of what it asks for"
    return f"valid, runs under {policy}" if policy else "valid; there is no policy"
