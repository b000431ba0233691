"""The one reader of shell lines: what bash would run, or that the line cannot be read.

    syntax.py    the grammar: a line as commands and words
    running.py   follows the commands: variables, folders, functions, what is fed to what
    printed.py   what programs print
    tables.py    what is known of programs, as data

Must never: guess, examine a file, or know what is protected.
"""
