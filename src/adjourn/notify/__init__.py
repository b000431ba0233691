"""Notifications: telling a person elsewhere that something starts to wait for them, by a command, a webhook or the desktop.

Notifications answer nothing, and no setting is read from a workspace.
"""
