"""Commands of the help groups "Contracts" (except `init` and `run`) and "Trust"."""
