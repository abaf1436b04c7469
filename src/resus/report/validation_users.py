"""What numbers of validation users must be read with: RESUS+ has learned from them."""

from resus.evaluation.results import Results
from resus.evaluation.warm_up_results import WarmUp
from resus.report.words import joined


def scales_sentence(measured: Results | WarmUp) -> str:
    """Empty where the users are test users, or no model learned its scales from validation users."""
    if measured.part != "validation" or not measured.posteriors:
        return ""
    return (
        f"{joined(measured.posteriors)} learned the three scales (bias, taste, repeats) from these very users, who "
        "also told each stage of training when to stop: judge on test users."
    )
