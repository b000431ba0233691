"""Hooks that clients call: one short process for each tool call, session start or session end."""
