"""The service under load, kills and bad requests: `python -m benchmarks.service.load`, `.kills`, `.fuzz`."""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # as in a worker of the service, before numpy is imported
