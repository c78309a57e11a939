"""What engines say of their KV caches, made into words that the scheduler's prefix index understands.

An engine's events are about blocks of tokens; the index knows prompts as blocks of text (../prefixes.py).

    order.py       an engine's batches in order, and what must be asked for again
    cached.py      which blocks of tokens one engine has
    alignment.py   how many tokens the leading blocks of a text are
    translation.py of one version: text blocks with the tokens they end at, and from both what changes in the index
    stream.py      the sockets of one engine
    tokenizing.py  asks an engine which tokens a prompt is, off the request's path
    follower.py    all of it together
"""
