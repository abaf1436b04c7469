"""How each kind of learner is trained, stage by stage; the settings of a learner name its recipe."""

from collections.abc import Callable

from resus.model.personalizer import Personalizer
from resus.training.recipes.paper import train_paper
from resus.training.recipes.plus import train_plus
from resus.training.run import Run

RECIPES: dict[str, Callable[[Run, Personalizer], None]] = {"paper": train_paper, "plus": train_plus}
