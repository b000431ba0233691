"""`adjourn policy draft`, `classify`, `review` and `tighten`: how a contract comes about, before it is signed."""

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
    flag,
    for_machines,
    in_folder,
    text_option,
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
    from adjourn.runs.draft import Draft
    from adjourn.setup.tightening import ToolUse


class DraftOptions(NamedTuple):
    """The options of `adjourn policy draft`, by their names."""

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
        'adjourn policy draft "fix the failing test in tests/test_api.py" --model anthropic',
        "adjourn policy draft --from-plan plan.md --model openai:gpt-5.5 --name release",
    ),
)
@click.argument("prompt", nargs=-1)
@with_model("drafts")
@text_option("--from-plan FILE", "Take the request from a file; PROMPT is added to it.")
@with_policy
@text_option("--name NAME", "The task's name (default: from the request).")
@text_option("--out FILE", "Write the draft to FILE (default: a new file in .aex/runs/).")
@text_option("--max-retries N", "Retry up to N times with the findings (1).", default=1)
@in_folder
@for_machines
def draft_(prompt: tuple[str, ...], *, as_json: bool, **options: Any) -> int:
    """Draft a task for a request with a model, and check that the task is valid and that the policy permits all of it.

    The policy's text is sent to the model. The draft is written to a new file even if it is not valid; nothing is run. Exit
    code 1 when it is not valid.
    """
    from adjourn.adapters.models import choose
    from adjourn.cli.lookup import policy_for, text_of
    from adjourn.host.finding import workspace_of
    from adjourn.runs import draft

    wanted = DraftOptions(**options)
    under = policy_for(wanted.policy)
    plan = text_of(wanted.from_plan) if wanted.from_plan else ""
    request = "\n\n".join(part for part in (plan, " ".join(prompt)) if part)
    chosen = choose(wanted.model, wanted.model_handler)
    if sys.stderr.isatty():
        click.echo(f"asking {chosen}…", err=True)
    drafted = draft.draft(request, chosen, name=wanted.name, policy=under, max_retries=wanted.max_retries)
    root = workspace_of().root
    path = draft.save(drafted, root, time.localtime(), wanted.out)
    path = wanted.out or os.path.relpath(os.path.join(root, path))
    if as_json:
        _print_json(drafted, path)
    else:
        _print(drafted, path, under is not None)
    return 0 if drafted.valid else 1


def _print(drafted: Draft, path: str, has_policy: bool) -> None:
    from adjourn.aex.diagnostics import render

    attempts = f", {drafted.attempts} attempts" if drafted.attempts > 1 else ""
    verdict = "valid task" if drafted.valid else f"not valid, {len(drafted.refused)} to fix"
    say(f"{safe(path)}: {verdict}{attempts}", "green" if drafted.valid else "red")
    for finding in drafted.findings:
        say_finding(render(finding, drafted.text))
    if not has_policy:
        say("  there is no policy: nothing but the task itself limits what it may do")
    say(f"  {'read it' if drafted.valid else 'fix it'}, then: adjourn policy review {safe(path)}")


def _print_json(drafted: Draft, path: str) -> None:
    from adjourn.cli.output import finding_json

    say_json(
        path=path,
        task=drafted.name,
        valid=drafted.valid,
        model=drafted.model,
        attempts=drafted.attempts,
        findings=[finding_json(finding) for finding in drafted.findings],
    )


# --- `adjourn policy tighten`


@click.command(epilog=example("adjourn policy tighten", "adjourn policy tighten --write"))
@flag("--write", "Write the proposed policy.")
@at_store
@for_machines
def tighten(*, context: CommandContext, write: bool, as_json: bool) -> int:
    """Propose a narrower policy from the calls that were recorded, as a diff.

    Rules for tools that were never called are removed, once 20 calls are recorded. A wildcard becomes the names of the tools that were
    called. A tool that was only used in one folder gets that folder as its scope. Under `mode observe`, tools that no rule allows are
    added: with a confirm if they write, and not at all if they have a destructive name. Comments and order of the policy stay.
    """
    from adjourn.aex.layers import discover
    from adjourn.setup import places
    from adjourn.setup.tightening import tightened

    path = discover(context.root)
    if path is None:
        raise NotFoundError("there is no policy to tighten", "write one: adjourn init")
    relative = os.path.relpath(path, context.root)
    text = places.read_plain(path, context.root)
    tasks, uses = _recorded(context)
    tightening = tightened(text, relative, uses)
    diff = unified_diff(text.splitlines(True), tightening.text.splitlines(True), relative, relative)
    calls = sum(use.calls for use in uses)
    is_written = write and tightening.text != text
    if is_written:
        places.replace(path, context.root, tightening.text.encode(), expect=text.encode())
    if as_json:
        changes = [
            {"line": proposal.line, "rule": proposal.rule, "calls": proposal.calls, "proposal": proposal.text}
            for proposal in tightening.proposals
        ]
        say_json(policy=relative, tasks=tasks, calls=calls, changes=changes, diff=diff, written=is_written)
        return 0
    say(
        f"{counted(calls, 'recorded call')} of {counted(tasks, 'task')}: {counted(len(tightening.proposals), 'proposal')} for {relative}"
    )
    unused = [proposal for proposal in tightening.proposals if proposal.line and not proposal.calls]
    rows = [
        (proposal.rule, str(proposal.calls), proposal.text)
        for proposal in tightening.proposals
        if proposal not in unused
    ]
    if unused:
        rows.append((counted(len(unused), "pattern"), "0", unused[0].text))
    if rows:
        say_table(("RULE", "CALLS", "PROPOSAL"), rows)
    if diff:
        say("")
        print_diff(safe_lines(diff))
        say(
            f"\nwritten: {relative}"
            if is_written
            else "\nnothing was changed; write it: adjourn policy tighten --write"
        )
    return 0


def _recorded(context: CommandContext) -> tuple[int, list[ToolUse]]:
    """How many tasks there are, and the calls of all of them, by tool."""
    from adjourn.clients.explaining import recorded_arguments
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
                for fact in kinds.facts_of(decode(entry.data)):
                    data = kinds.data_of(fact)
                    if isinstance(data, kinds.ToolAllowed) and not data.uncounted:
                        use = uses.setdefault((data.server, data.tool), ToolUse(data.server, data.tool))
                        arguments = recorded_arguments(data)
                        use.count(paths_of(arguments, context.tree) if arguments else ())
    return len(names), list(uses.values())


# --- `adjourn policy review`


@click.command(
    epilog=example("adjourn policy review tasks/fix-test.aex", "adjourn policy review tasks/fix-test.aex --run --yes")
)
@click.argument("file", metavar="FILE", type=FILE_PATH)
@with_policy
@flag("--run", "Run the task after you confirm, if the policy refuses nothing of it.", dest="run_it")
@flag("--yes", "With --run: do not ask, and approve each confirmation in the run.")
@text_option("--inputs FILE", "With --run: its inputs, as JSON.")
@with_model("answers `make` steps, with --run")
@flag("--auto-confirm", "With --run: approve each confirmation in the run.")
@in_folder
@for_machines
def review(file: str, *, policy: str, run_it: bool, yes: bool, auto_confirm: bool, as_json: bool, **passed: str) -> int:
    """Show what a task requests and what the policy grants of it; also its checks, `make` steps and confirmations.

    Exit code 1 when the task is not valid, or asks for something that the policy refuses; such a task is not run.
    """
    from adjourn.aex.task_review import reviewed
    from adjourn.cli.lookup import from_here, policy_for, text_of
    from adjourn.host.finding import workspace_of
    from adjourn.policy.contract import unsigned

    under = policy_for(policy)
    root = workspace_of().root
    text = text_of(file, root)
    result = reviewed(
        text,
        os.path.relpath(file),
        under.policy if under else None,
        policy_source=under.policy_source if under else "",
        refusals=unsigned(root, from_here(file, root), text, under.policy, file) if under else (),
    )
    if as_json:
        say_json(msgspec.to_builtins(result))
    else:
        _review_print(result)
    runs = result.valid and result.runs_under_policy
    if not run_it or not runs:
        if run_it:
            complain(f"{safe(file)} is not run", "fix what the review warns about")
        return 0 if runs else 1
    if not yes:
        _ask(file)
        if text_of(file, root) != text:
            raise InvalidError(f"{file} changed while you read its review", "review it again")
    named = {"policy": policy, **passed}
    options = [word for name, value in named.items() if value for word in (f"--{name.replace('_', '-')}", value)]
    return _run([file, *options, *(["--auto-confirm"] if yes or auto_confirm else [])])


def _ask(file: str) -> None:
    """Returns when a person says yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("there is no terminal to ask for confirmation on", "run it with --yes")
    click.confirm(f"\nRun {safe(file)}?", abort=True)


def _run(arguments: Sequence[str]) -> int:
    return main(["run", *arguments])


def _review_print(result: Review) -> None:
    runs = result.valid and result.runs_under_policy
    say(f"Status: {_status(result)}", "green" if runs else "red")
    head = [
        ("Task:", result.task),
        ("Goal:", result.goal),
        ("File:", result.source.task),
        ("Policy:", result.source.policy),
    ]
    say_facts(*head)
    effective = result.effective
    budget = [] if effective.budget is None else [f"calls={effective.budget}"]
    sections = {
        "Requested": result.requested,
        "Denied by the task": result.denied,
        "Effective: allowed": effective.allow,
        "Effective: denied": effective.deny,
        "Effective: asked for": effective.confirm,
        "Effective: budget": budget,
        "Checks": result.checks,
        "Made by a model": result.make_steps,
        "Confirmations in the task": result.confirm_required,
        "Warnings": result.warnings,
    }
    for title, lines in sections.items():
        if lines:
            say(f"\n{title}:")
        for line in lines:
            say(f"  {safe(line)}")


def _status(result: Review) -> str:
    policy = safe(result.source.policy)
    if not result.valid:
        return "not valid, would not run"
    if not result.runs_under_policy:
        return f"valid, but {policy} refuses something of what it asks for"
    return f"valid, runs under {policy}" if policy else "valid; there is no policy"


# --- `adjourn policy classify`


@click.command("classify", epilog=example('adjourn policy classify "deploy the docs to production"'))
@click.argument("prompt", nargs=-1, required=True)
def classify_(prompt: tuple[str, ...]) -> None:
    """Classify from its wording whether a request needs a contract. Always prints JSON.

    The mode is contract_required, contract_recommended or exploratory. It is advice: the policy says what is permitted.
    """
    from adjourn.aex.task_review import classify

    say_json(msgspec.to_builtins(classify(" ".join(prompt))))
