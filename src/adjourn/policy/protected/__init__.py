"""What no gated call may touch, whatever the policy says, and finding it in a call.

    words.py      names of arguments, and words of tools' names, by which a call says what it does
    places.py     the protected places, and what real paths have to do with them
    texts.py      files that are named by patches, by SQL and by other texts
    reach.py      what the words of a command reach, and what `find` comes upon
    commands.py   which place a command line reaches
    personal.py   whether a command speaks for a person, or for the client
    calls.py      which place a call would touch: the one question that proxy, hook and run ask

Must never: be taken for a sandbox. A tool that runs programs can reach any file; deny or confirm such tools.
"""
