"""The code server: search, symbols, meaning, and guided sessions in a repository.

An annex: it imports the core, which reaches `commands` by entry points alone. Its layers, top to bottom: commands, server, workflow,
search, index, language_servers, git.
"""
