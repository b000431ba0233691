"""Use cases: everything that happens to a task goes through here. The only writer of events."""
