"""Notifications: telling a person elsewhere that something begins to wait for them, by a command, a webhook or the desktop.

Owns: what a notification says, who gets it, and that each gets it at least once. Must never: answer anything, or read a setting from a workspace.
"""
