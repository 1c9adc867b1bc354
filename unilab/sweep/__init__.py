"""``unilab sweep``: one command with several seeds, one after the other, and what they say together."""
