"""How many threads each of several processes may use."""

import os

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


def threads_of_each(jobs: int) -> int:
    """The cores of the machine, shared by the jobs. Tells libraries so, in processes that are started from now on."""
    threads = max(1, (os.cpu_count() or 1) // jobs)
    for variable in VARIABLES:
        os.environ.setdefault(variable, str(threads))
    return threads
