"""Deleting what is no longer needed: old checkpoints on request, and data that nothing refers to."""
