"""Commands of the help group "Questions to a person", except `settle`; and `record`."""
