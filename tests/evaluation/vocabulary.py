"""What the scenarios are about: three trades, with the tools, goals, plans, facts and errors of each.

A sentence has places: `{w}` takes a name that nothing else has (`ledger-index`), `{n}` a number that nothing else has. So a sentence
is known by what stands in its places, whatever words a hand-over puts around them.

Owns: these texts. Must never: know a rendering.
"""

from __future__ import annotations

import random
import string
from typing import NamedTuple

from evaluation.reader import whole


class Saying(NamedTuple):
    """A sentence, and the patterns that tell it from all others."""

    text: str
    keys: tuple[str, ...]


class Tool(NamedTuple):
    """A tool, and the argument that says what a call of it is about."""

    name: str
    argument: str


class Trade(NamedTuple):
    """A kind of work. Of the tools: `reads` has no effect, `writes` makes files, `checks` fails now and then, `acts` is confirmed by a
    person, `sends` has an effect elsewhere, `banned` is denied. `protected` is where `writes` may not write.
    """

    name: str
    reads: Tool
    writes: Tool
    checks: Tool
    acts: Tool
    sends: Tool
    banned: Tool
    protected: str
    folder: str
    suffix: str
    goals: tuple[str, ...]
    steps: tuple[str, ...]
    facts: tuple[str, ...]
    decisions: tuple[str, ...]
    constraints: tuple[str, ...]
    learnings: tuple[str, ...]
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    errors: tuple[str, ...]

    @property
    def tools(self) -> dict[str, bool]:
        """Every tool, and whether it only reads."""
        every = (self.reads, self.writes, self.checks, self.acts, self.sends, self.banned)
        return {tool.name: tool is self.reads for tool in every}

    def policy(self, budget: int = 9_000) -> list[str]:
        """The policy of a workspace, with a budget of calls."""
        allowed = [tool for tool in self.tools if tool != self.banned.name]
        return [
            f"use {', '.join(allowed)}",
            f"deny {self.banned.name}",
            f"deny {self.writes.name}:{self.protected}/**",
            f"confirm before {self.acts.name}",
            f"budget calls={budget}",
        ]


class Author:
    """Fills sentences. No name and no number is given out twice."""

    def __init__(self, trade: Trade, rng: random.Random) -> None:
        self.trade = trade
        self.rng = rng
        pairs = [f"{first}-{second}" for first in _FIRST for second in _SECOND]
        self._names = rng.sample(pairs, len(pairs))
        self._numbers = rng.sample(range(1_000, 10_000), 900)
        self._used: dict[str, int] = {}

    def name(self) -> str:
        return self._names.pop()

    def say(self, subject: str) -> Saying:
        """The next sentence about a subject (a member of the trade), all its forms in turn."""
        forms: tuple[str, ...] = getattr(self.trade, subject)
        turn = self._used.get(subject, self.rng.randrange(len(forms)))
        self._used[subject] = turn + 1
        form = forms[turn % len(forms)]
        values = {"w": self.name() if "{w}" in form else "", "n": str(self._numbers.pop()) if "{n}" in form else ""}
        fields = {field for _, field, _, _ in string.Formatter().parse(form) if field}
        return Saying(form.format(**values), tuple(whole(values[field]) for field in sorted(fields)))

    def path(self) -> str:
        return f"{self.trade.folder}/{self.name()}{self.trade.suffix}"


_FIRST = (
    "amber", "birch", "cedar", "delta", "ember", "fjord", "garnet", "harbor", "indigo", "juniper", "kelp", "lumen", "maple",
    "nickel", "ochre", "pewter", "quartz", "raven", "sable", "tundra", "umber", "vesper", "willow", "zephyr",
)  # fmt: skip
_SECOND = (
    "gateway", "index", "ledger", "queue", "cache", "parser", "mirror", "router", "archive", "tunnel", "broker", "catalog",
)  # fmt: skip

CODING = Trade(
    name="coding",
    reads=Tool("file.read", "path"),
    writes=Tool("file.write", "path"),
    checks=Tool("tests.run", "target"),
    acts=Tool("deploy.release", "version"),
    sends=Tool("registry.publish", "artifact"),
    banned=Tool("git.force_push", "branch"),
    protected="secrets",
    folder="src",
    suffix=".py",
    goals=(
        "Move the {w} checkout to the new payment interface, ticket {n}",
        "Make the {w} import survive a restart, ticket {n}",
        "Remove the deprecated {w} client, ticket {n}",
    ),
    steps=(
        "Rewrite the retry loop of {w} so that it stops after {n} ms",
        "Add the missing test for {w} with {n} rows",
        "Split {w} into a reader and a writer, as in change {n}",
        "Bisect the regression in {w} starting at build {n}",
    ),
    facts=(
        "The {w} service listens on port {n}",
        "Build {n} is the last one where {w} passed",
        "{w} holds at most {n} connections",
        "The schema of {w} is at revision {n}",
        "The flaky test of {w} is known as issue {n}",
    ),
    decisions=(
        "Keep the {w} format at version {n}",
        "Use optimistic locking in {w}, retry limit {n}",
        "Vendor {w} at revision {n}",
        "Drop support for {w} below {n}",
    ),
    constraints=(
        "Never change the public names of {w} before milestone {n}",
        "Do not run the {w} migration twice: incident {n}",
        "Keep {w} below {n} KiB of memory",
    ),
    learnings=(
        "Mocking {w} hides the bug of ticket {n}",
        "The {w} suite needs {n} s when the cache is cold",
        "Tests of {w} depend on their order since build {n}",
    ),
    questions=(
        "May the {w} interface break for customer {n}?",
        "Which branch shall {w} be released from for ticket {n}?",
        "Who owns {w} after reorganisation {n}?",
    ),
    answers=("Only behind the flag of {w}", "From the {w} branch", "The team around {w}"),
    errors=(
        "AssertionError: {w} returned {n} instead of 0",
        "TimeoutError: {w} did not answer within {n} ms",
        "ImportError: cannot load {w}, code {n}",
    ),
)
RESEARCH = Trade(
    name="research",
    reads=Tool("web.fetch", "url"),
    writes=Tool("notes.write", "path"),
    checks=Tool("dataset.validate", "dataset"),
    acts=Tool("doc.publish", "title"),
    sends=Tool("survey.send", "panel"),
    banned=Tool("account.purchase", "item"),
    protected="embargoed",
    folder="notes",
    suffix=".md",
    goals=(
        "Compare the {w} studies with the registry, brief {n}",
        "Write the review of {w} for committee {n}",
        "Find out why {w} contradicts survey {n}",
    ),
    steps=(
        "Read the appendix of {w}, table {n}, and extract the sample sizes",
        "Reconcile the totals of {w} with dataset {n}",
        "Draft the section on {w} around figure {n}",
        "Ask for the raw data of {w}, request {n}",
    ),
    facts=(
        "The {w} study has {n} participants",
        "{w} was retracted in notice {n}",
        "Dataset {n} leaves out the {w} region",
        "The {w} survey closed after {n} answers",
        "Reviewer {n} wrote the protocol of {w}",
    ),
    decisions=(
        "Exclude {w} because of protocol {n}",
        "Weight {w} by its {n} households",
        "Use the {w} definition from manual {n}",
        "Report {w} in appendix {n} only",
    ),
    constraints=(
        "Never quote {w} before embargo {n} ends",
        "Do not contact the authors of {w} again: complaint {n}",
        "Cite {w} by its archive number {n}",
    ),
    learnings=(
        "The {w} archive blocks after {n} requests",
        "Totals of {w} are in thousands since report {n}",
        "Abstracts of {w} differ from their tables, see note {n}",
    ),
    questions=(
        "Does committee {n} accept preprints about {w}?",
        "Which year shall the {w} series start with, draft {n}?",
        "May {w} be named in report {n}?",
    ),
    answers=("Only reviewed ones, says {w}", "With the {w} census", "As {w} only"),
    errors=(
        "HTTP 503 from {w}, incident {n}",
        "ValueError: {w} has {n} rows without a year",
        "checksum mismatch in {w}, block {n}",
    ),
)
OPERATIONS = Trade(
    name="operations",
    reads=Tool("host.status", "host"),
    writes=Tool("config.write", "path"),
    checks=Tool("probe.run", "check"),
    acts=Tool("service.restart", "service"),
    sends=Tool("mail.send", "to"),
    banned=Tool("volume.delete", "volume"),
    protected="etc/ssl",
    folder="runbooks",
    suffix=".yaml",
    goals=(
        "Bring the {w} cluster back to full capacity, incident {n}",
        "Move {w} to the new racks, change {n}",
        "Rotate the certificates of {w}, change {n}",
    ),
    steps=(
        "Drain {w} and wait until it has fewer than {n} sessions",
        "Compare the replica lag of {w} with {n} ms",
        "Raise the file limit of {w} to {n}",
        "Fail over {w} within window {n}",
    ),
    facts=(
        "{w} has {n} GiB left",
        "The {w} balancer answers on port {n}",
        "Alert {n} comes from {w}",
        "{w} runs kernel build {n}",
        "The last backup of {w} is job {n}",
    ),
    decisions=(
        "Keep {w} read-only until change {n}",
        "Restore {w} from backup {n}",
        "Send the traffic of {w} through pool {n}",
        "Leave {w} at release {n}",
    ),
    constraints=(
        "Never restart {w} outside of window {n}",
        "Do not touch the quorum of {w}: incident {n}",
        "Page duty officer {n} before any change to {w}",
    ),
    learnings=(
        "{w} needs {n} s until its health check is true",
        "Probes of {w} lie while job {n} runs",
        "Alerts of {w} arrive {n} s late",
    ),
    questions=(
        "May {w} be down during window {n}?",
        "Which pool takes the load of {w} in change {n}?",
        "Who approves the restore of {w}, ticket {n}?",
    ),
    answers=("Yes, if {w} stays up", "The pool of {w}", "The owner of {w}"),
    errors=(
        "probe failed: {w} answered {n}",
        "ConnectionRefusedError: {w} on port {n}",
        "disk of {w} is full, volume {n}",
    ),
)
TRADES = {trade.name: trade for trade in (CODING, RESEARCH, OPERATIONS)}
