"""``unilab evaluate``: the returns of a finished run's policy, the same bits as the run's own evaluation."""
