"""What a call is and what guards it: its arguments, protected places, destructive calls, contracts and signatures."""
