"""What is said about a log on which runs were not trained."""

from resus.cli.console import say, warn
from resus.evaluation.comparison import Comparison
from resus.evaluation.results import Results


def tell_news(results: Results | Comparison, users: str) -> None:
    """For each run of another log: what is new to it, and whom the measurement leaves out."""
    for name, news in results.news.items():
        say(f"{results.log.name}, seen from {name}: {news.sentence()}")
        known = news.trained_users + news.validated_users
        if users == "all" and known:
            warn(f"resus: {known:,} of the users trained or validated {name}: its figures on them are too good")
        elif known:
            say(f"  left out because {name} was trained or validated on them: {known:,} users")
