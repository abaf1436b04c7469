"""Two models side by side on one store: the second one scores every request unseen, and may answer some users."""
