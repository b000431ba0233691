"""`adjourn sign`."""

from __future__ import annotations

import click

from adjourn.cli.shared.context import example, for_machines, in_folder, speak, user
from adjourn.cli.shared.documents import text_of
from adjourn.cli.shared.output import safe, say, say_json
from adjourn.cli.shared.signatures import members, secret_of, what_signed, with_secret
from adjourn.host import now
from adjourn.log import timestamp
from adjourn.policy import signatures


@click.command(
    epilog=example(
        "adjourn sign tasks/fix-test.aex", "adjourn sign tasks/fix-test.aex --id ann --key-file team.secret"
    )
)
@click.argument("file")
@click.option(
    "--id", "signer", default="", metavar="NAME", help="Who signs (default: the name of your account)."
)
@with_secret
@click.option("--output", default="", metavar="FILE", help="Signature file (default: FILE.signature.json).")
@in_folder
@for_machines
def sign(
    file: str, *, signer: str, key: str | None, key_file: str | None, output: str, as_json: bool
) -> None:
    """Sign a contract: record that you vouch for exactly this text.

    Signs with your own key; others get it from `adjourn keys show`. With --key or --key-file, signs with a secret that you share
    with those who verify; each of them could have made the signature.
    """
    secret = secret_of(key, key_file)
    text = text_of(file).encode()
    speak()
    made = signatures.sign(file, text, signer=signer or user().id, signed_at=timestamp(now()), secret=secret)
    path = output or signatures.place(file)
    signatures.write(made, path)
    if as_json:
        say_json(path=path, signature=members(made))
        return
    say(f"signed: {safe(file)}, by {safe(made.signer)} with {what_signed(made)}")
    say(f"  written: {safe(path)} ({members(made)['schema']})")
