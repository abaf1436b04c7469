"""Search for settings on validation users, with Optuna."""
