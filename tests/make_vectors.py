"""Writes spec/vectors and the list of kinds in spec/events.md: `python tests/make_vectors.py`.

Digests are for ever: it adds events to the chain of the vectors, and refuses to change one. To add a kind, append its
samples to the end of `SAMPLES`, and run this.
"""

from __future__ import annotations

import hmac
import json
import sys
from hashlib import sha1
from pathlib import Path
from typing import Any

import msgspec

from adjourn.aex import seal
from adjourn.log import kinds, merkle
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import GENESIS, Actor, Event, encode, timestamp
from adjourn.log.signing import SignedHead, encode_bytes, fingerprint, public_key, sign

FOLDER = Path(__file__).parent.parent / "spec" / "vectors"
SPEC = FOLDER.parent / "events.md"
BEGIN, END = "<!-- kinds: begin -->\n", "<!-- kinds: end -->\n"
TASK = "20260502-7k3f9q2m"
FIRST_TIME = 1_777_735_812_345
PRIVATE = bytes(range(32))

AGENT = Actor("claude-code", "agent")
ANN = Actor("ann", "human")
SYSTEM = Actor("adjourn", "system")
ONE = digest(b"one")
TWO = digest(b"two")

SAMPLES: list[tuple[Actor, str, kinds.Data | None]] = [
    (SYSTEM, "s1", kinds.TaskOpened(contract=ONE, goal='Größe "messen" \\ 測る 😀\n\t\x01\x7f\u2028')),
    (
        SYSTEM,
        "s1",
        kinds.SessionOpened(
            budget=50,
            client="claude-code",
            era="2026-07-28",
            group="box:1b4e28ba:4026531836/812/5012",
            host="box:1b4e28ba:4026531836",
            pid=4711,
            policy=TWO,
            started=90210,
        ),
    ),
    (AGENT, "s1", kinds.ToolAllowed(call="s1.1", digest=ONE, effectful=False, tool="read_file")),
    (SYSTEM, "s1", kinds.ToolSettled(call="s1.1", outcome="ok")),
    (AGENT, "s1", kinds.ToolDenied(reason="not_allowed", tool="rm")),
    (AGENT, "s1", kinds.ToolDenied(reason="deny_list", rule="deny git.push (policy.aex:3)", tool="git.push")),
    (
        AGENT,
        "s1",
        kinds.ConfirmRequired(
            approval="q1",
            arguments='{"to":"prod"}',
            cause="confirm deploy (policy.aex:4)",
            digest=TWO,
            expires="2026-05-02T15:45:12.345Z",
            tool="deploy",
        ),
    ),
    (ANN, "", kinds.ConfirmApproved(approval="q1", tool="deploy", via="terminal")),
    (
        AGENT,
        "s1",
        kinds.ToolAllowed(
            approval="q1", arguments='{"to":"prod"}', call="s1.2", digest=TWO, effectful=True, tool="deploy"
        ),
    ),
    (SYSTEM, "s1", kinds.ToolSettled(answer=ONE, call="s1.2", milliseconds=4200, outcome="input-required", state=TWO)),
    (AGENT, "s1", kinds.ToolContinued(call="s1.2")),
    (SYSTEM, "s2", kinds.SessionLost(calls=["s1.2"], lost="s1", reason="dead")),
    (
        SYSTEM,
        "s2",
        kinds.SessionOpened(
            group="box:1b4e28ba:4026531836/813/6012",
            host="box:1b4e28ba:4026531836",
            pid=4712,
            policy=TWO,
            started=90310,
        ),
    ),
    (ANN, "", kinds.EffectSettled(call="s1.2", note="looked at the host", outcome="done")),
    (ANN, "", kinds.EffectSettled(call="s1.2", outcome="not-done")),
    (AGENT, "s2", kinds.BudgetExhausted(limit=2, tool="read_file", used=2)),
    (
        AGENT,
        "s2",
        kinds.ConfirmRequired(
            approval="q2",
            cause="it repeats call s1.2",
            digest=TWO,
            doubt="s1.2",
            expires="2026-05-02T15:45:12.345Z",
            tool="deploy",
        ),
    ),
    (SYSTEM, "s2", kinds.ConfirmDenied(approval="q2", tool="deploy", via="timeout")),
    (SYSTEM, "s2", kinds.ConfirmAutoApproved(tool="deploy")),
    (AGENT, "s2", kinds.ToolAllowed(call="s2.1", digest=ONE, effectful=False, tool="aex.checkpoint", uncounted=True)),
    (AGENT, "s2", None),  # a checkpoint, signed where it stands
    (AGENT, "s2", kinds.CheckpointResumed(checkpoint=ONE, name="half-way", source="store")),
    (ANN, "", kinds.TaskImported(head=TWO, seq=11)),
    (ANN, "", kinds.TaskImported(head=TWO, seq=11, signer="ed25519:" + "0f" * 16)),
    (SYSTEM, "s2", kinds.MessageRefused(reason="not JSON", size=9007199254740991)),
    (SYSTEM, "s2", kinds.MessageRefused(reason="not JSON", sample="{\\", size=1)),
    (SYSTEM, "s2", kinds.UpstreamError(message="no such file")),
    (SYSTEM, "s2", kinds.UpstreamCrashed()),
    (SYSTEM, "s2", kinds.UpstreamCrashed(code=1, signal=-9)),
    (SYSTEM, "s2", kinds.UpstreamNonJson(line="Listening on 8080")),
    (SYSTEM, "s2", kinds.SessionClosed(reason="eof")),
    (SYSTEM, "s2", kinds.SessionClosed(reason="moved", to="20260502-other")),
    (SYSTEM, "s2", kinds.TaskOpened()),
    (ANN, "", kinds.TaskImported(calls=7, document=ONE)),
    (ANN, "", kinds.TaskImported()),
    (AGENT, "s2", kinds.RunStarted(agent="fix_test", document=ONE, file="tasks/fix-test.aex", inputs=TWO)),
    (AGENT, "s2", kinds.RunStarted(agent="fix_test", document=ONE, inputs=TWO)),
    (AGENT, "s2", kinds.RunResumed(finished=3)),
    (AGENT, "s2", kinds.ToolResult(bind="sources", call="s2.3", result=ONE, step="2", tool="file.read")),
    (AGENT, "s2", kinds.ToolResult(call="s2.4", result=ONE, step="3:5.1", tool="file.write")),
    (
        AGENT,
        "s2",
        kinds.MakeResult(
            bind="patch", call="s2.5", input_tokens=900, model="m-1", output_tokens=80, result=TWO, step="4"
        ),
    ),
    (AGENT, "s2", kinds.MakeResult(bind="patch", call="s2.6", result=TWO, step="4")),
    (AGENT, "s2", kinds.CheckPassed(condition="patch is valid diff", step="5")),
    (AGENT, "s2", kinds.CheckFailed(condition="final.passed", reason="it is false", step="6.1")),
    (AGENT, "s2", kinds.IfTrue(condition="report.urgent", step="7")),
    (AGENT, "s2", kinds.IfFalse(condition="report.urgent", step="7")),
    (AGENT, "s2", kinds.ForStart(count=2, step="8", variable="report")),
    (AGENT, "s2", kinds.RunFinished(reason="check failed: final.passed", status="blocked", step="6.1")),
    (AGENT, "s2", kinds.RunFinished(result=ONE, status="success")),
    (
        AGENT,
        "s2",
        kinds.ToolAllowed(
            arguments='{"invoice":"A-7"}',
            call="s2.7",
            digest=ONE,
            effectful=True,
            limits=["10/60 payments.*", "3/86400 payments.charge"],
            once=f"{ONE} {TWO}",
            tool="payments.charge",
        ),
    ),
    (SYSTEM, "s2", kinds.ToolReplayed(call="s2.7", once=ONE, tool="payments.charge")),
    (AGENT, "s2", kinds.BudgetExhausted(budget="usd", limit=5_000_000, tool="read_file", used=5_000_100)),
    (
        AGENT,
        "s2",
        kinds.ConfirmRequired(
            approval="q3",
            cause="confirm deploy by ann within 10m else allow (policy.aex:5)",
            digest=TWO,
            expires="2026-05-02T15:45:12.345Z",
            otherwise="allow",
            tool="deploy",
            who="ann",
        ),
    ),
    (SYSTEM, "s2", kinds.PolicyChanged(budget=80, contract=ONE, policy=TWO)),
    (SYSTEM, "s2", kinds.PolicyChanged(policy=TWO)),
    (SYSTEM, "s2", kinds.PolicyBroken(message="policy.aex:4: nothing begins with this")),
    (
        SYSTEM,
        "s2",
        kinds.PolicyObserved(decision="block", reason="deny_list", rule="deny rm (policy.aex:3)", tool="rm"),
    ),
    (SYSTEM, "s2", kinds.PolicyObserved(decision="replay", reason="call s2.7 had this effect", tool="rm")),
    (AGENT, "s2", kinds.UsageReported(micro_usd=1200, model="m-1", tokens=980)),
    (AGENT, "s2", kinds.UsageReported()),
    (AGENT, "s2", kinds.PhaseEntered(after="Q3", document=ONE, phase="READY", reason="asked for", step=12)),
    (AGENT, "s2", kinds.PhaseEntered(after="MERGE", document=TWO)),
    (AGENT, "s2", kinds.ToolContinued(call="s2.7", leg=2)),
    (SYSTEM, "s2", kinds.ToolDefined(definition=ONE, server="87c759ea7e0b880c", tool="deploy")),
    (SYSTEM, "s2", kinds.ToolDefined(definition=ONE, tool="deploy")),
    (SYSTEM, "s2", kinds.ToolChanged(after=TWO, before=ONE, server="87c759ea7e0b880c", tool="deploy")),
    (SYSTEM, "s2", kinds.ToolChanged(after=TWO, before=ONE, tool="deploy")),
    (
        AGENT,
        "s2",
        kinds.ConfirmRequired(
            approval="q4",
            cause="confirm deploy (policy.aex:4)",
            definition=TWO,
            digest=TWO,
            expires="2026-05-02T15:45:12.345Z",
            params=ONE,
            tool="deploy",
        ),
    ),
    (AGENT, "s2", kinds.ToolAllowed(call="s2.8", digest=ONE, effectful=True, params=TWO, tool="deploy")),
    (SYSTEM, "s2", kinds.UpstreamRefused(method="roots/list", reason="deny_list", rule="deny mcp.* (policy.aex:6)")),
    (SYSTEM, "s2", kinds.UpstreamRefused(method="x/y", reason="not_allowed")),
    (
        ANN,
        "",
        kinds.TaskImported(at="2026-05-02T15:30:12.345Z", audit=TWO, budget=100, calls=5, document=ONE, source="aex"),
    ),
    (
        ANN,
        "",
        kinds.EntryImported(
            at="2026-05-02T15:29:30Z", decision="block", entry="tool.denied", reason="deny_list", tool="network.fetch"
        ),
    ),
    (ANN, "", kinds.EntryImported(entry="upstream.crashed")),
    (AGENT, "s2", kinds.TaskFinished(note="shipped")),
    (ANN, "", kinds.TaskReopened(note="one host is missing")),
    (ANN, "", kinds.TaskFinished()),
    (ANN, "", kinds.TaskReopened()),
    (
        AGENT,
        "s2",
        kinds.ToolAllowed(behind=True, call="c8", digest=ONE, effectful=True, once=f"+{TWO}@bank", tool="pay"),
    ),
    (SYSTEM, "s2", kinds.ToolSettled(answer=TWO, call="c8", outcome="ok", seen=True)),
    (SYSTEM, "s2", kinds.SessionClosed(reason="client-eof", unread=["c8"])),
    (SYSTEM, "", kinds.EffectRepeated(again="c9", approval="q2", call="c8", task="t2")),
    (SYSTEM, "", kinds.EffectRepeated(again="c9", task="t2")),
    (SYSTEM, "", kinds.PinRefused(action="adjourn approve", failures=1)),
    (SYSTEM, "", kinds.PinRefused(action="/answer", failures=2, via="page")),
    (SYSTEM, "", kinds.GraphSaved(checkpoint="1f0a", document=ONE, source="loop", step="3")),
    (SYSTEM, "", kinds.GraphWritten(checkpoint="1f0a", document=TWO, node="model")),
    (SYSTEM, "", kinds.GraphDeleted(count=12)),
    (
        AGENT,
        "s2",
        kinds.ToolReadings(
            allowed=[
                kinds.ToolAllowed(call="s2.8", digest=ONE, effectful=False, server="files", tool="read_file"),
                kinds.ToolAllowed(arguments='{"path":"a"}', call="s2.9", digest=TWO, effectful=False, tool="read_file"),
            ],
            settled=[kinds.ToolSettled(answer=TWO, call="s2.7", milliseconds=3, outcome="ok")],
        ),
    ),
    (
        ANN,
        "",
        kinds.HistoryAccepted(
            accepted="2026-05-02T15:30:12.345Z",
            document=ONE,
            key="ed25519:" + "0f" * 16,
            lost=57,
            signature="A" * 86 + "==",
            since="2026-05-02T02:00:00.000Z",
            who="ann",
        ),
    ),
]
"""Every kind, with all its members and with as few as it may have. They show bytes; not each one makes sense here."""


def chain() -> tuple[list[dict[str, str]], SignedHead]:
    """The events of `SAMPLES` as text and hash, and the head that the checkpoint among them signs."""
    events: list[dict[str, str]] = []
    after = GENESIS
    head = SignedHead(after="", document="", name="", root="", seq=-1, task="", timestamp="")
    for seq, (by, session, sample) in enumerate(SAMPLES):
        stamp = timestamp(FIRST_TIME + 1001 * seq)
        data = sample
        if data is None:
            head = SignedHead(
                after=after,
                document=ONE,
                name="half-way",
                root=root([event["hash"] for event in events]),
                seq=seq,
                task=TASK,
                timestamp=stamp,
            )
            data = kinds.CheckpointCreated(
                description="the half",
                document=ONE,
                key=fingerprint(public_key(PRIVATE)),
                name="half-way",
                previous=TWO,
                root=head.root,
                signature=sign(PRIVATE, head),
                trigger="agent",
            )
        event = Event(
            after=after,
            by=by,
            data=msgspec.Raw(msgspec.json.encode(data)),
            event=data.KIND,
            seq=seq,
            session=session,
            task=TASK,
            timestamp=stamp,
            v=data.V,
        )
        after, stored = encode(event)
        events.append({"bytes": stored.decode(), "hash": after})
    return events, head


def root(hashes: list[str]) -> str:
    return merkle.root(bytes.fromhex(text) for text in hashes).hex()


def events_vectors() -> dict[str, Any]:
    events, head = chain()
    hashes = [event["hash"] for event in events]
    leaves = [bytes.fromhex(text) for text in hashes]
    return {
        "about": "spec/events.md: a chain with every kind of event; roots[n] is that over the first n event hashes",
        "events": events,
        "roots": [root(hashes[:size]) for size in range(len(hashes) + 1)],
        "inclusion": {"index": 5, "size": 21, "path": [node.hex() for node in merkle.inclusion_proof(leaves[:21], 5)]},
        "consistency": {
            "old": 13,
            "new": 21,
            "path": [node.hex() for node in merkle.consistency_proof(leaves[:21], 13)],
        },
        "signed_head": {
            "private_key": PRIVATE.hex(),
            "public_key": encode_bytes(public_key(PRIVATE)),
            "fingerprint": fingerprint(public_key(PRIVATE)),
            "head": msgspec.to_builtins(head),
            "message": head.message().decode(),
            "signature": sign(PRIVATE, head),
        },
    }


LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
"""The leaves with which Certificate Transparency implementations are tested."""


def merkle_vectors() -> dict[str, Any]:
    leaves = [bytes.fromhex(text) for text in LEAVES]
    sizes = range(1, len(leaves) + 1)
    return {
        "about": "RFC 6962 section 2.1: roots[n] is that over the first n leaves; all proofs between these trees",
        "leaves": LEAVES,
        "roots": [merkle.root(leaves[:size]).hex() for size in (0, *sizes)],
        "inclusion": [
            {
                "index": index,
                "size": size,
                "path": [node.hex() for node in merkle.inclusion_proof(leaves[:size], index)],
            }
            for size in sizes
            for index in range(size)
        ],
        "consistency": [
            {"old": old, "new": new, "path": [node.hex() for node in merkle.consistency_proof(leaves[:new], old)]}
            for new in sizes
            for old in range(1, new + 1)
        ],
    }


VALUES = [
    "null", "[true,false]", '""', "[]", "{}", "[[],{}]",
    "[0,-0,-0.0,0.0,1.0,-1.50,1E3,9007199254740991,-9007199254740991]",
    "[1e20,1e21,123456789012345680000.0,1e-6,1e-7,0.1,5e-324,1.7976931348623157e308,2.5e-10,1.25e25]",
    '"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f\\u007f\\u0080\\u2028\\u20ac\\ud83d\\ude00\\/\\"\\\\"',
    '{ "b": 1, "a": [1.0, 0.1], "A": {"z": null, "y": "x"}, "": 0, "aa": 2 }',
    '{"\\ufb33":"after","\\ud83d\\ude00":"before, for UTF-16 sorts it so","\\u20ac":1,"\\u0080":2,"1":3,"\\r":4}',
]  # fmt: skip

REFUSED = [
    "9007199254740992", "-9007199254740992", "1e999", "NaN", "Infinity",
    '"\\ud800"', '{"\\udc00":1}', "[" * 201 + "]" * 201,
]  # fmt: skip


def jcs_vectors() -> dict[str, Any]:
    return {
        "about": "RFC 8785: the canonical text of JSON texts, and texts that have none here",
        "canonical": [{"json": text, "canonical": canonical(json.loads(text)).decode()} for text in VALUES],
        "refused": REFUSED,
    }


CONTRACT = 'task look v0\n\ngoal "Größe messen"\n\nuse file.read\n\nreturn "測る"\n'
SECRET = "correct horse battery staple"


def signature_vectors() -> dict[str, Any]:
    text, secret = CONTRACT.encode(), SECRET.encode()
    said = {"file": "look.aex", "signer": "Ann Größe", "signed_at": timestamp(FIRST_TIME)}
    own, shared = seal.sign(text, PRIVATE, **said), seal.sign_shared(text, secret, **said)
    published = {
        "schema": "aex/signature@v1",
        "file": "/home/ann/look.aex",
        "hash": digest(text),
        "signer": "ann",
        "signedAt": timestamp(FIRST_TIME),
        "signature": hmac.digest(secret, digest(text).encode(), "sha256").hex(),
        "keyHint": sha1(secret).hexdigest()[:12],
        "tool": "aex-cli",
    }
    return {
        "about": "spec/signature.md: one text, signed by a key, by a shared secret, and in the published form",
        "text": CONTRACT,
        "private_key": PRIVATE.hex(),
        "public_key": encode_bytes(public_key(PRIVATE)),
        "secret": SECRET,
        "ed25519": {"file": seal.written(own).decode(), "message": own.message().decode()},
        "shared": {"file": seal.written(shared).decode(), "message": shared.message().decode()},
        "published": {"file": json.dumps(published, indent=2), "message": digest(text)},
    }


def main() -> int:
    made = {
        "signature.json": signature_vectors(),
        "events.json": events_vectors(),
        "merkle.json": merkle_vectors(),
        "jcs.json": jcs_vectors(),
    }
    old = FOLDER / "events.json"
    if old.exists():
        kept = json.loads(old.read_text("utf-8"))["events"]
        if made["events.json"]["events"][: len(kept)] != kept:
            print("an event of the vectors would change; stored bytes are for ever", file=sys.stderr)
            return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, vectors in made.items():
        text = json.dumps(vectors, ensure_ascii=True, indent=1) + "\n"
        (FOLDER / name).write_text(text, "utf-8")
    SPEC.write_text(with_kinds(SPEC.read_text("utf-8")), "utf-8")
    return 0


def with_kinds(spec: str) -> str:
    """The text of spec/events.md with the kinds as they are now."""
    before, _, rest = spec.partition(BEGIN)
    return before + BEGIN + kinds.describe() + END + rest.partition(END)[2]


if __name__ == "__main__":
    sys.exit(main())
