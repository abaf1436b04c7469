"""What numbers of validation users must be read with: RESUS+ has learned from them."""

from resus.evaluation.results import Results, WarmUp
from resus.report.words import joined


def scales_sentence(measured: Results | WarmUp) -> str:
    """Empty where the users are test users, or no model learned its scales from validation users."""
    if measured.part != "validation" or not measured.tuned_on_validation:
        return ""
    return (
        f"{joined(measured.tuned_on_validation)} learned the three scales (bias, taste, repeats) from these users, "
        "who also told each stage of training when to stop: judge on test users."
    )
