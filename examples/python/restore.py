"""Restore a checkpoint in another process, and see what is stale."""

import time

from adjourn import CognitiveStore, SessionOptions, SqliteStore

DAY = 24 * 60 * 60 * 1000

store = SqliteStore("work.db")
memory = CognitiveStore(store, "release", goal="Release version 2")
memory.fact("The port is 8080", source="config.toml", confidence=1)
checkpoint = memory.create_checkpoint("begun")

# three days later, in another process
later = SessionOptions(clock=lambda: time.time_ns() // 1_000_000 + 3 * DAY)
memory = CognitiveStore(SqliteStore("work.db"), "release", options=later)
restored = memory.restore_from_checkpoint(checkpoint.id)
print(restored.session.name)
print(*restored.warnings, sep="\n")
print(*[fact.content for fact in memory.state.epistemic_state.facts])
