"""`adjourn decide`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from adjourn.cli.records.select import author, items, one_item, records_at, written
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import safe, say, say_facts, say_json
from adjourn.errors import UsageError

if TYPE_CHECKING:
    from adjourn.cli.records.select import Item
    from adjourn.knowledge.model import Tree
    from adjourn.knowledge.records import CRStore


class DecisionAction(NamedTuple):
    """What to do with a decision, as the options of `adjourn decide` say it."""

    override: str | None
    contest: str | None
    accept: bool
    reject: bool
    variant: int | None
    because: str

    @property
    def actions(self) -> int:
        """How many actions were given; one is right."""
        return sum([self.override is not None, self.contest is not None, self.accept, self.reject])

    def apply(self, store: CRStore, found: Item) -> Tree:
        """Change the decision. Returns the new version of its record."""
        by = author()
        if self.override is not None:
            return store.override_decision(found.cr_id, found.id, self.override, by, rationale=self.because)
        if self.contest is not None:
            return store.contest_decision(found.cr_id, found.id, self.contest, self.because, by)
        status: Literal["accepted", "rejected"] = "accepted" if self.accept else "rejected"
        return store.settle_decision(found.cr_id, found.id, status, by, variant=self.variant)


@click.command(
    epilog=example(
        "adjourn decide",
        'adjourn decide d1 --override "Use PostgreSQL" --because "two machines write"',
        'adjourn decide d1 --contest "Use SQLite" --because "nothing to run"',
        "adjourn decide d1 --accept --variant 1",
    )
)
@click.argument("decision", default="")
@click.option("--override", metavar="TEXT", default=None, help="Replace the decision with this text.")
@click.option(
    "--contest", metavar="TEXT", default=None, help="Contest the decision with this text: it is open again."
)
@click.option("--accept", is_flag=True, help="Accept the decision.")
@click.option("--reject", is_flag=True, help="Reject the decision.")
@click.option(
    "--variant", type=click.IntRange(min=0), metavar="N", default=None, help="Accept the text of variant N."
)
@click.option("--because", metavar="TEXT", default="", help="Give the reason.")
@click.option(
    "--record", metavar="RECORD", default="", help="Record to look in, if several have such a decision."
)
@at_store
@for_machines
def decide(context: CommandContext, decision: str, *, record: str, as_json: bool, **action: Any) -> None:
    """Override, contest or settle a decision in a record; without DECISION, list those that are not settled.

    DECISION is its id or a beginning of it. The earlier text stays as a variant.
    """
    store = records_at(context)
    known = items(store, "decision")
    given = DecisionAction(**action)
    if not decision:
        if given.actions:
            raise UsageError("no decision is named", "list those that are not settled: adjourn decide")
        _list([one for one in known if one.item["status"] in ("contested", "tentative")], as_json=as_json)
        return
    if given.actions != 1:
        raise UsageError("no action is given", "give --override, --contest, --accept or --reject")
    found = one_item(known, decision, "decision", "list them: adjourn record show", record)
    if given.contest is not None and not given.because:
        raise UsageError("why?", "give the reason with --because")
    after = given.apply(store, found)
    changed = next(item for item in after["decisions"] if item["id"] == found.id)
    if as_json:
        say_json(written(after, decision=changed))
        return
    say(f"{changed['status']}: {safe(found.id)} {safe(changed['description'])}")
    if changed["affects"]:
        say(f"  review again: {safe(', '.join(changed['affects']))}")


def _list(found: list[Item], *, as_json: bool) -> None:
    if as_json:
        say_json(decisions=[one.item | {"record": one.cr_id} for one in found])
        return
    if not found:
        say("every decision is settled")
        return
    say(f"{len(found)} not settled: `adjourn decide ID --accept`, --reject, --override or --contest")
    for one in found:
        variants = one.item.get("variants", ())
        say(f"\n{safe(one.id)}  {safe(one.item['description'])} ({one.item['status']})")
        rows = [
            (f"  variant {n}", f"{v['author']['id']}: {v['decision']} ({v['rationale']})")
            for n, v in enumerate(variants)
        ]
        say_facts(("  because", one.item["rationale"]), *rows, ("  record", one.cr_id))
