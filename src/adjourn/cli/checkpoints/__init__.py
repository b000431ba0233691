"""Commands of the help group "Checkpoints", except `record`."""
