"""`adjourn classify`."""

from __future__ import annotations

import click
import msgspec

from adjourn.aex import classify
from adjourn.cli.shared.context import example
from adjourn.cli.shared.output import say_json


@click.command("classify", epilog=example('adjourn classify "deploy the docs to production"'))
@click.argument("prompt", nargs=-1, required=True)
def classify_(prompt: tuple[str, ...]) -> None:
    """Tell by its words whether a request should be worked on under a contract; always prints JSON.

    The mode is contract_required, contract_recommended or exploratory. It is advice: what is permitted, the policy says.
    """
    say_json(msgspec.to_builtins(classify(" ".join(prompt))))
