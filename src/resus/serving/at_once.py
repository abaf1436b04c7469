"""Answers at once: without waiting and with little work, so that no thread is needed to keep others from waiting."""

MOST_CANDIDATES = 200
MOST_EVENTS = 200  # of a user whose fit follows an event before an answer


class NotAtOnceError(Exception):
    """The answer takes waiting or much work: ask for it in a thread."""
