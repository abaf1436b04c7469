"""One toy of each extension."""
