"""``unilab plot``: returns of finished runs over env steps and over wall time, seeds of one command as one curve."""
