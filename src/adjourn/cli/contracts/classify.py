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
    """Classify from its wording whether a request needs a contract. Always prints JSON.

    The mode is contract_required, contract_recommended or exploratory. It is advice: the policy says what is permitted.
    """
    say_json(msgspec.to_builtins(classify(" ".join(prompt))))
