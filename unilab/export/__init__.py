"""``unilab export``: a run's policy as a bundle that needs neither unilab nor torch."""
