"""Create a checkpoint of what an agent knows, assumes, does and wants."""

from adjourn import CognitiveStore, MemoryStore

memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2")
memory.fact("The port is 8080", source="config.toml", confidence=1)
memory.assume("Nobody else deploys today")
tests = memory.step("Run the tests", type="tool-call")
memory.update(tests, status="completed")

checkpoint = memory.create_checkpoint("tests pass", "Everything is ready for the release")
metrics = checkpoint.metrics
print(checkpoint.label, f"{metrics.completed_nodes} of {metrics.total_nodes} steps completed")
