"""Learn the scales of RESUS+ on validation users: a few numbers, in a bounded number of steps."""

import itertools
from collections.abc import Callable

from resus.arrays import Floats
from resus.episodes.batch import EpisodeBatch
from resus.model.personalizer import Personalizer
from resus.training.episodes import fit_on_episodes
from resus.training.run import Run

ROUNDS, STEPS = 6, 30
COOLING = 0.5  # of the learning rate in each round


def learn_scales(run: Run, model: Personalizer, logits: Floats, validate: Callable[[], float], stage: str) -> None:
    """Minimise the Logloss of the validation users' queries over all support sizes; the factors stay as they are."""

    def batches_of(round_: int) -> list[EpisodeBatch]:
        stream = (batch for epoch in itertools.count() for batch in run.episodes.epoch(epoch))
        return list(itertools.islice(stream, round_ * STEPS, (round_ + 1) * STEPS))

    model.encoder.requires_grad_(False)
    schedule = run.schedule(stage, epochs=ROUNDS, patience=ROUNDS, validate=validate, keep_last=True)
    fit_on_episodes(model, logits, run.log, batches_of, schedule, run.config.training, cooling=COOLING)
    model.encoder.requires_grad_(True)
