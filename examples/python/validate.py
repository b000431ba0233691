"""Check a checkpoint from elsewhere before it is restored."""

from adjourn import CognitiveStore, MemoryStore, validate_checkpoint

memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2")
memory.step("Build", status="completed")
checkpoint = memory.create_checkpoint("built")

broken = checkpoint.nodes[0].replace(parent_id="step-9", confidence=1.5)
validity = validate_checkpoint(checkpoint.replace(nodes=(broken,)))
print(validity.valid, validity.errors, validity.warnings)
