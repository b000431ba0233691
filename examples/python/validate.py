"""Check a checkpoint from elsewhere before it is restored."""

from adjourn import CognitiveStore, MemoryStore, validate_checkpoint

memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2")
memory.step("Build", status="completed")
checkpoint = memory.create_checkpoint("built")

checkpoint["nodes"][0]["parentId"] = "step-9"
checkpoint["nodes"][0]["confidence"] = 1.5
validity = validate_checkpoint(checkpoint)
print(validity.valid, validity.errors, validity.warnings)
