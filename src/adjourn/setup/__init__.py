"""Setting up clients: find their files, plan the changes, make them, and undo them."""
