"""Commands of the help group "Finding your way", and `init`."""
