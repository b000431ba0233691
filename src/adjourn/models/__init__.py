"""Asking a language model: through a client's sampling, or for a draft of a contract."""
