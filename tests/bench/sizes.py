"""How much is measured: the real run, `--quick`, and `--tiny` for the smoke test."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """`rounds` of a subject are interleaved with those of the others."""

    idle_seconds: float = 0
    """How long to wait for rounds in which the machine does nothing else; 0 takes every round."""
    beside: dict[str, Path] = field(default_factory=dict)
    """Other source trees of adjourn, by name, that are relays, too."""
    clones: Path | None = None
    """The folder of the clones that questions are asked about; without one none is asked."""
    profiled: int = 500
    starts: int = 25
    rounds: int = 120
    calls: int = 50
    warm_up: int = 200
    throughput_rounds: int = 40
    throughput: int = 1_000
    memory: tuple[int, ...] = (1_000, 20_000, 40_000)
    entries: int = 3_000
    entry_bytes: int = 500
    store_rounds: int = 20
    checkpoint_histories: tuple[int, ...] = (1_000, 20_000)
    verified: int = 50_000
    repeats: int = 5
    thread_turns: int = 500
    growth_turns: int = 200
    growth_calls: int = 50
    thread_messages: tuple[int, ...] = (1_500, 6_000)
    histories: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    resumes: int = 30
    rules: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    decisions: int = 100_000
    code_files: int = 4_000
    code_rounds: int = 15
    code_names: int = 200
    code_symbols: int = 500
    code_uses: int = 100
    code_firsts: int = 3
    page_tasks: int = 10_000
    page_events: int = 1_000_000
    page_starts: int = 5
    page_rounds: int = 20
    page_live: int = 100
    page_rate: int = 1_000
    page_seconds: float = 60
    page_open: int = 20
    page_turns: int = 30
    page_turn: float = 1
    transcripts: int = 2_000
    transcript_rounds: int = 10
    transcript_megabytes: int = 200
    transcript_line_megabytes: int = 50
    gateway_rounds: int = 12
    gateway_calls: int = 2_000
    gateway_flights: int = 64
    gateway_peers: bool = True
    gateway_sessions: int = 1_000
    gateway_churn: int = 10_000
    gateway_people: int = 1_000
    gateway_people_seconds: int = 10
    gateway_foreign: int = 200_000


FULL = Sizes()
QUICK = Sizes(
    profiled=200,
    starts=6,
    rounds=24,
    throughput_rounds=8,
    throughput=1_000,
    memory=(1_000, 5_000, 10_000),
    entries=1_000,
    store_rounds=5,
    checkpoint_histories=(1_000, 5_000),
    verified=20_000,
    repeats=3,
    thread_turns=200,
    growth_turns=40,
    thread_messages=(1_500,),
    histories=(1_000, 10_000, 100_000),
    resumes=10,
    decisions=20_000,
    code_files=400,
    code_rounds=5,
    code_names=50,
    code_symbols=100,
    code_uses=15,
    code_firsts=1,
    page_events=100_000,
    page_starts=2,
    page_rounds=8,
    page_seconds=20,
    page_turns=4,
    transcript_rounds=4,
    gateway_rounds=4,
    gateway_calls=1_000,
    gateway_churn=1_000,
    gateway_people=200,
    gateway_people_seconds=2,
    gateway_foreign=20_000,
)
TINY = Sizes(
    profiled=10,
    starts=1,
    rounds=2,
    calls=10,
    warm_up=5,
    throughput_rounds=1,
    throughput=100,
    memory=(20, 100),
    entries=64,
    store_rounds=2,
    checkpoint_histories=(600,),
    verified=1_000,
    repeats=1,
    thread_turns=4,
    growth_turns=2,
    growth_calls=3,
    thread_messages=(200,),
    histories=(1_000, 3_000),
    resumes=2,
    rules=(1, 100),
    decisions=200,
    code_files=70,
    code_rounds=1,
    code_names=10,
    code_symbols=3,
    code_uses=3,
    code_firsts=1,
    page_tasks=60,
    page_events=3_000,
    page_starts=1,
    page_rounds=2,
    page_live=8,
    page_rate=200,
    page_seconds=2,
    page_open=6,
    page_turns=1,
    page_turn=0.1,
    transcripts=20,
    transcript_rounds=1,
    transcript_megabytes=1,
    transcript_line_megabytes=1,
    gateway_rounds=1,
    gateway_calls=20,
    gateway_flights=4,
    gateway_sessions=10,
    gateway_churn=4,
    gateway_people=10,
    gateway_people_seconds=1,
    gateway_foreign=100,
)
