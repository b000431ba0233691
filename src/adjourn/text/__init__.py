"""Text that others wrote, made safe: strict JSON, quoting, redaction of secrets, escapes for terminals. Pure."""
