"""`adjourn draft`, `classify`, `review` and `tighten`: how a contract comes about, before it is signed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from adjourn.cli.app import main
from adjourn.cli.context import (
    FILE_PATH,
    CommandContext,
    at_store,
    example,
    for_machines,
    in_folder,
    with_model,
    with_policy,
)
from adjourn.cli.output import (
    complain,
    counted,
    safe,
    safe_lines,
    say,
    say_facts,
    say_finding,
    say_json,
    say_table,
    unified_diff,
)
from adjourn.cli.terminal import Spinner, print_diff
from adjourn.errors import InvalidError, NotFoundError, UsageError

if TYPE_CHECKING:
    from adjourn.aex.task_review import Review
    from adjourn.models.draft import Draft
    from adjourn.setup.tightening import ToolUse


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
    "--from-plan",
    default="",
    metavar="FILE",
    type=FILE_PATH,
    help="Take the request from a file; PROMPT is added to it.",
)
@with_policy
@click.option("--name", default="", metavar="NAME", help="The task's name (default: from the request).")
@click.option(
    "--out",
    default="",
    metavar="FILE",
    type=FILE_PATH,
    help="Write the draft to FILE (default: a new file in .aex/runs/).",
)
@click.option("--max-retries", default=1, metavar="N", help="Retry up to N times with the findings (1).")
@in_folder
@for_machines
def draft_(prompt: tuple[str, ...], *, as_json: bool, **options: Any) -> int:
    """Draft a task for a request with a model, and check that the task is valid and that the policy permits all of it.

    The policy's text is sent to the model. The draft is written to a new file even if it is not valid; nothing is run. Exit
    code 1 when it is not valid.
    """
    from adjourn.adapters.models import choose
    from adjourn.cli.documents import policy_for, text_of
    from adjourn.host.finding import workspace_of
    from adjourn.models import draft

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
    from adjourn.aex.diagnostics import render

    attempts = f", {made.attempts} attempts" if made.attempts > 1 else ""
    verdict = "valid task" if made.valid else f"not valid, {len(made.refused)} to fix"
    say(f"{safe(path)}: {verdict}{attempts}", "green" if made.valid else "red")
    for finding in made.findings:
        say_finding(render(finding, made.text))
    if not has_policy:
        say("  there is no policy: nothing but the task itself limits what it may do")
    say(f"  {'read it' if made.valid else 'fix it'}, then: adjourn review {safe(path)}")


def _print_json(made: Draft, path: str) -> None:
    from adjourn.cli.output import finding_json

    say_json(
        path=path,
        task=made.name,
        valid=made.valid,
        model=made.model,
        attempts=made.attempts,
        findings=[finding_json(finding) for finding in made.findings],
    )


# --- `adjourn tighten`


@click.command(epilog=example("adjourn tighten", "adjourn tighten --write"))
@click.option("--write", is_flag=True, help="Write the proposed policy.")
@at_store
@for_machines
def tighten(*, context: CommandContext, write: bool, as_json: bool) -> int:
    """Propose a narrower policy from the calls that were recorded, as a diff.

    What was never called is no longer allowed, a wildcard becomes the names of the tools that were called, and a tool whose calls
    stayed in one folder gets that folder as its scope. Under `mode observe`, tools that no rule allows are added: with a confirm if
    they write, not at all if their name says that they destroy. Comments and order of the policy stay. Nothing counts as never called
    before 20 calls are recorded.
    """
    from adjourn.aex.layers import discover
    from adjourn.setup import files
    from adjourn.setup.tightening import tightened

    path = discover(context.root)
    if path is None:
        raise NotFoundError("there is no policy to tighten", "write one: adjourn init")
    shown = os.path.relpath(path, context.root)
    text = files.read_plain(path, context.root)
    tasks, uses = _recorded(context)
    found = tightened(text, shown, uses)
    diff = unified_diff(text.splitlines(True), found.text.splitlines(True), shown, shown)
    calls = sum(use.calls for use in uses)
    is_written = write and found.text != text
    if is_written:
        files.replace(path, context.root, found.text.encode(), expect=text.encode())
    if as_json:
        changes = [
            {"line": one.line, "rule": one.rule, "calls": one.calls, "proposal": one.text}
            for one in found.proposals
        ]
        say_json(policy=shown, tasks=tasks, calls=calls, changes=changes, diff=diff, written=is_written)
        return 0
    say(
        f"{counted(calls, 'recorded call')} of {counted(tasks, 'task')}: {counted(len(found.proposals), 'proposal')} for {shown}"
    )
    unused = [one for one in found.proposals if one.line and not one.calls]
    rows = [(one.rule, str(one.calls), one.text) for one in found.proposals if one not in unused]
    if unused:
        rows.append((counted(len(unused), "pattern"), "0", unused[0].text))
    if rows:
        say_table(("RULE", "CALLS", "PROPOSAL"), rows)
    if diff:
        say("")
        print_diff(safe_lines(diff))
        say(
            f"\nwritten: {shown}"
            if is_written
            else "\nnothing was changed; write it: adjourn tighten --write"
        )
    return 0


def _recorded(context: CommandContext) -> tuple[int, list[ToolUse]]:
    """How many tasks there are, and the calls of all of them, by tool."""
    from adjourn.clients.replaying import recorded_arguments
    from adjourn.log import kinds
    from adjourn.log.event import decode
    from adjourn.policy.calls import paths_of
    from adjourn.setup.tightening import ToolUse
    from adjourn.tasks.heads import verified_entries_from
    from adjourn.tasks.task import tasks_of

    uses: dict[tuple[str, str], ToolUse] = {}
    names = sorted(tasks_of(context.store))
    with Spinner("reading the history"):
        for name in names:
            for entry in verified_entries_from(context.store, name, 0, context.store.head(name)):
                data = kinds.data_of(decode(entry.data))
                if isinstance(data, kinds.ToolAllowed) and not data.uncounted:
                    use = uses.setdefault((data.server, data.tool), ToolUse(data.server, data.tool))
                    given = recorded_arguments(data)
                    use.count(paths_of(given, context.tree) if given else ())
    return len(names), list(uses.values())


# --- `adjourn review`


@click.command(
    epilog=example("adjourn review tasks/fix-test.aex", "adjourn review tasks/fix-test.aex --run --yes")
)
@click.argument("file", metavar="FILE", type=FILE_PATH)
@with_policy
@click.option(
    "--run",
    "run_it",
    is_flag=True,
    help="Run the task after you confirm, if the policy refuses nothing of it.",
)
@click.option("--yes", is_flag=True, help="With --run: do not ask, and approve each confirmation in the run.")
@click.option("--inputs", default="", metavar="FILE", type=FILE_PATH, help="With --run: its inputs, as JSON.")
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
    from adjourn.aex.task_review import reviewed
    from adjourn.cli.documents import from_here, policy_for, text_of
    from adjourn.host.finding import workspace_of
    from adjourn.policy.contract import unsigned

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
        _review_print(told)
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


def _review_print(told: Review) -> None:
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


# --- `adjourn classify`


@click.command("classify", epilog=example('adjourn classify "deploy the docs to production"'))
@click.argument("prompt", nargs=-1, required=True)
def classify_(prompt: tuple[str, ...]) -> None:
    """Classify from its wording whether a request needs a contract. Always prints JSON.

    The mode is contract_required, contract_recommended or exploratory. It is advice: the policy says what is permitted.
    """
    from adjourn.aex.classification import classify

    say_json(msgspec.to_builtins(classify(" ".join(prompt))))
