"""More than one machine: the same training and the same prediction, started on the workers of a Ray cluster."""
