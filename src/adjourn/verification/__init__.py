"""Checking a store, a task or a checkpoint folder: hash chains, signatures and references, reported as findings."""
