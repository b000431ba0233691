"""What a call is and what guards it: its arguments, protected places, destructive calls, contracts and signatures.

Owns: reading a call and the permissions of a task. Must never: write an event.
"""
