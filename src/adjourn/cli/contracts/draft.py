"""`adjourn draft`."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from adjourn.adapters import choose
from adjourn.aex import render
from adjourn.cli.shared.context import example, for_machines, in_folder, with_model, with_policy
from adjourn.cli.shared.documents import policy_for, text_of
from adjourn.cli.shared.output import finding_json, safe, say, say_finding, say_json
from adjourn.host import workspace_of
from adjourn.models import draft

if TYPE_CHECKING:
    from adjourn.models import Draft


class DraftOptions(NamedTuple):
    """The options of `adjourn draft`, by their names."""

    model: str
    model_handler: str
    from_plan: str
    policy: str
    name: str
    out: str
    max_retries: int


@click.command(
    "draft",
    epilog=example(
        'adjourn draft "fix the failing test in tests/test_api.py" --model anthropic',
        "adjourn draft --from-plan plan.md --model openai:gpt-5.5 --name release",
    ),
)
@click.argument("prompt", nargs=-1)
@with_model("drafts")
@click.option(
    "--from-plan", default="", metavar="FILE", help="Take the request from a file; PROMPT is added to it."
)
@with_policy
@click.option("--name", default="", metavar="NAME", help="The task's name (default: from the request).")
@click.option(
    "--out", default="", metavar="FILE", help="Write the draft to FILE (default: a new file in .aex/runs/)."
)
@click.option("--max-retries", default=1, metavar="N", help="Retry up to N times with the findings (1).")
@in_folder
@for_machines
def draft_(prompt: tuple[str, ...], *, as_json: bool, **options: Any) -> int:
    """Draft a task for a request with a model, and check that the task is valid and that the policy permits all of it.

    The policy's text is sent to the model. The draft is written to a new file even if it is not valid; nothing is run. Exit
    code 1 when it is not valid.
    """
    given = DraftOptions(**options)
    under = policy_for(given.policy)
    plan = text_of(given.from_plan) if given.from_plan else ""
    request = "\n\n".join(part for part in (plan, " ".join(prompt)) if part)
    chosen = choose(given.model, given.model_handler)
    if sys.stderr.isatty():
        click.echo(f"asking {chosen}…", err=True)
    made = draft.draft(request, chosen, name=given.name, policy=under, max_retries=given.max_retries)
    root = workspace_of().root
    path = draft.save(made, root, time.localtime(), given.out)
    path = given.out or os.path.relpath(os.path.join(root, path))
    if as_json:
        _print_json(made, path)
    else:
        _print(made, path, under is not None)
    return 0 if made.valid else 1


def _print(made: Draft, path: str, has_policy: bool) -> None:
    attempts = f", {made.attempts} attempts" if made.attempts > 1 else ""
    verdict = "valid task" if made.valid else f"not valid, {len(made.refused)} to fix"
    say(f"{safe(path)}: {verdict}{attempts}", "green" if made.valid else "red")
    for finding in made.findings:
        say_finding(render(finding, made.text))
    if not has_policy:
        say("  there is no policy: nothing but the task itself limits what it may do")
    say(f"  {'read it' if made.valid else 'fix it'}, then: adjourn review {safe(path)}")


def _print_json(made: Draft, path: str) -> None:
    say_json(
        path=path,
        task=made.name,
        valid=made.valid,
        model=made.model,
        attempts=made.attempts,
        findings=[finding_json(finding) for finding in made.findings],
    )
