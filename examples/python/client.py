"""A client of Anthropic's that knows after a restart what it knew before."""

from adjourn import CognitiveStore, ResumableAnthropic, SqliteStore


def client() -> ResumableAnthropic:
    """What each process opens."""
    return ResumableAnthropic(CognitiveStore(SqliteStore("work.db"), "chat", goal="Find the port"), model="claude-test")


first = client()
print(first.ask("Which port does the server use?"))
saved = first.save_checkpoint("the port is known")

second = client()
second.restore_checkpoint(saved)
print(second.ask("And who owns it?"))
print([fact.content for fact in second.memory.state.epistemic_state.facts])
