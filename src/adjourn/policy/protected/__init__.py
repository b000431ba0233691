"""What no gated call may touch, whatever the policy says, and finding it in a call.

    words.py      names of arguments, and words of tools' names, by which a call says what it does
    walking.py    the paths that a text may be, and the places that a path may lead to
    places.py     the protected places, and what real paths have to do with them
    texts.py      files that are named by patches and by SQL
    reach.py      what the words of a command reach
    programs.py   what programs do with their words
    find.py       what `find` does with the files that it comes upon
    commands.py   which place a command line reaches
    personal.py   whether a command speaks for a person, or for the client
    reason.py     what is said of a call that would touch one
    calls.py      which place a call would touch: the one question that proxy, hook and run ask

Must never: be taken for a sandbox. A tool that runs programs can reach any file; deny or confirm such tools.
"""
