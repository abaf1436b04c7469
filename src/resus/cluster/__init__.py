"""Training and prediction on the workers of a Ray cluster."""
