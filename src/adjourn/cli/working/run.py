"""`adjourn run`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from adjourn import runs
from adjourn.adapters import Exporter, choose
from adjourn.cli.shared.context import (
    CommandContext,
    at_store,
    example,
    for_machines,
    with_model,
    with_policy,
)
from adjourn.cli.shared.documents import from_here
from adjourn.cli.shared.output import complain, safe, say, say_json
from adjourn.cli.working.run_view import Person, Printer, signals
from adjourn.errors import InvalidError, UsageError
from adjourn.host import read_file, workspace_of

if TYPE_CHECKING:
    from adjourn.models import Model

MAX_INPUTS = 10_000_000


@click.command(
    epilog=example(
        "adjourn run tasks/fix-test.aex --inputs tasks/fix-test.inputs.json --model anthropic",
        "adjourn run --resume",
    )
)
@click.argument("file", default="", metavar="[FILE]")
@click.option("--resume", is_flag=True, help="Resume the newest unfinished run (of FILE), or that of --task.")
@click.option(
    "--inputs", default="", metavar="FILE", help="Read the inputs from FILE, a JSON object; - is stdin."
)
@with_policy
@click.option("--task", default="", metavar="NAME", help="Name of the run's task (default: generated).")
@click.option(
    "--auto-confirm",
    is_flag=True,
    help="Approve what a `confirm` asks about. Calls in doubt are still asked about.",
)
@click.option(
    "--confirm-timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Time that a question waits without a terminal (default: until it expires).",
)
@with_model("answers `make` steps")
@click.option(
    "--registry",
    default="",
    metavar="URL",
    help="Use the tools of a remote registry; they override the built-in ones.",
)
@click.option(
    "--otlp-endpoint",
    default="",
    metavar="URL",
    help="Send each event as a span to a collector: OTLP over HTTP, as JSON.",
)
@click.option("--log-json", is_flag=True, help="Print events as JSON with time and trace.")
@at_store
@for_machines
def run(
    context: CommandContext, file: str, *, resume: bool, inputs: str, as_json: bool, **settings: Any
) -> int:
    """Run the steps of the contract FILE under the policy, and record them.

    A run that was interrupted or blocked continues with --resume from the step it had reached; finished steps do not run again.
    Prints the events, then the value of the `return`. Exit code 1 when the run is blocked.
    """
    if not file and not resume:
        raise UsageError("no contract is named", "name one: adjourn run FILE, or resume a run with --resume")
    if resume and inputs:
        raise UsageError(
            "a run keeps the inputs that it was started with", "leave out --inputs, or start a new run"
        )
    file, settings["policy"] = (from_here(path, context.root) for path in (file, settings["policy"]))
    if resume:
        _ = context.store  # which must be there
    stop = runs.Stop()
    exporter = _exporter(settings["otlp_endpoint"])
    with Printer(quiet=as_json, structured=settings["log_json"], exporter=exporter) as printer, signals(stop):
        options = runs.Options(
            root=context.root,
            tree=context.tree,
            store=context.url,
            ask=Person(printer, settings["confirm_timeout"]),
            emit=printer.event,
            stop=stop,
            tell=lambda note: complain(safe(note)),
            model=_model(context, settings["model"], settings["model_handler"]),
            **{name: settings[name] for name in ("policy", "task", "registry", "auto_confirm")},
        )
        prepared = (
            runs.resume_run(options, file) if resume else runs.start_run(options, file, _inputs(inputs))
        )
        printer.begin(prepared, again=resume)
        try:
            outcome = prepared.go()
        except KeyboardInterrupt:
            complain("interrupted", f"resume it: adjourn run --resume --task {prepared.task}")
            return 130
    return _tell(outcome, as_json=as_json)


def _model(context: CommandContext, name: str, handler: str) -> Model | None:
    if not (name or handler or os.environ.get("AEX_MODEL")):
        return None

    return choose(name, handler, root=context.root, store=context.url)


def _exporter(url: str) -> Exporter | None:
    if not url:
        return None

    try:
        return Exporter(url)
    except InvalidError as error:
        raise UsageError(f"--otlp-endpoint: {error.message}", error.remedy) from error


def _inputs(file: str) -> dict[str, Any]:
    """The inputs. Raises `UsageError` for what is no JSON object."""
    if not file:
        return {}

    text = (
        sys.stdin.buffer.read(MAX_INPUTS + 1)
        if file == "-"
        else read_file(file, MAX_INPUTS, workspace_of().root)
    )
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"the inputs in {file} are not a JSON object: {error}", 'write {"name": value, …}'
        ) from error


def _tell(outcome: runs.RunOutcome, *, as_json: bool) -> int:
    if as_json:
        say_json(msgspec.to_builtins(outcome))
    elif outcome.status == "success":
        say("runtime success", "green")
        say_json(outcome.output)
    else:
        sys.stdout.flush()
        print(f"error runtime blocked: {safe(outcome.reason)}", file=sys.stderr)
        if outcome.remedy:
            print(f"  {safe(outcome.remedy)}", file=sys.stderr)
    return 0 if outcome.status == "success" else 1
