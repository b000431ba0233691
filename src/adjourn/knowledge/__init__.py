"""What an agent knows: documents, Continuation Records, cognitive sessions, and their text for prompts."""
