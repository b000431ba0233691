"""Facts: events in canonical bytes, their hash chain, Merkle trees over them, and signed heads.

Pure: no I/O but the key files of `signing`. The format is `spec/events.md`; digests are for ever.
"""
