"""Setting clients up: finding their files, planning what changes in them, changing them, and taking it back."""
