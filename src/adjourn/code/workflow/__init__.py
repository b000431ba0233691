"""The procedure of a coding session: phases, what each one requires, and what a submission leads to.

Owns: the rules. Must never: write a checkpoint, or talk to a client.
"""
