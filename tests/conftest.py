"""One thread for every test: with more, small sums wait for preempted threads as soon as anything else runs."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
