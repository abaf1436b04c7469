"""A second model beside the first one of a worker: who answers, and the comparison that nobody waits for."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from resus.arrays import Floats
from resus.errors import ConfigError
from resus.serving.answers import Scored
from resus.serving.at_once import NotAtOnceError
from resus.serving.engine import Engine
from resus.serving.experiment.figures import Figures, Pair
from resus.serving.experiment.predictions import Predictions
from resus.serving.experiment.split import Split
from resus.serving.loaded import LoadedModel
from resus.serving.messages import (
    EventResult,
    PostedEvent,
    PredictRequest,
    RecommendAnswer,
    RecommendRequest,
)

WAITING = 64  # answered requests that wait for the other model; further ones are left out and counted
WITHOUT_EXPLORING = dict.fromkeys(("explore", "seed", "width", "draws"))
FULL, FAILED, LATE = "queue full", "failed", "events came meanwhile"

log = logging.getLogger("resus.serving")
Answer = TypeVar("Answer", Scored, RecommendAnswer)


class _Sides(NamedTuple):
    """Two models with what is counted about them. A reload replaces all at once."""

    first: Engine
    second: Engine
    pair: Pair
    predictions: Predictions


class _Answered(NamedTuple):
    """A request, and what the model whose turn it was said: log-odds of some items."""

    sides: _Sides
    by_second: bool
    request: PredictRequest | RecommendRequest
    items: Sequence[str | None]
    logits: Floats
    support: int
    shown: Sequence[int]  # places of the items that the answer holds
    best: str | None = None  # of the whole catalogue


class Trial:
    """Threads may share it. The model that does not answer scores in a thread of its own, and only if it keeps up.

    This thread rests after each request for as long as it worked, so that answers lose at most half of the time to it.
    """

    def __init__(self, first: Engine, second: Engine, *, split: Split | None, memory: object, figures: Figures) -> None:
        self.split = split
        self._memory, self._figures = memory, figures
        self._sides = self._sides_of(first, second)
        self._waiting: queue.Queue[_Answered] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    @property
    def second(self) -> Engine:
        return self._sides.second

    @property
    def pair(self) -> Pair:
        return self._sides.pair

    def use(self, first: Engine, second: Engine) -> None:
        """Go on with other models."""
        self._sides.predictions.clear()
        self._sides = self._sides_of(first, second)

    def score(self, request: PredictRequest, *, at_once: bool = False) -> Scored:
        sides, by_second, scored = self._ask(request, lambda engine: engine.score(request, at_once=at_once))
        logits = scored.scores.basis + scored.scores.residual
        order = np.argsort(-logits) if scored.explored is None else scored.explored.order
        shown = order[: request.top].tolist()
        self._compare_later(_Answered(sides, by_second, request, scored.items, logits, scored.support, shown))
        return scored

    def recommend(self, request: RecommendRequest) -> RecommendAnswer:
        sides, by_second, answer = self._ask(request, lambda engine: engine.recommend(request))
        if answer.answers:
            items = [one.item for one in answer.answers]
            logits = np.array([one.basis + one.residual for one in answer.answers], dtype=np.float32)
            best = answer.exploration.greedy[0] if answer.exploration else items[0]
            later = _Answered(sides, by_second, request, items, logits, answer.support, range(len(items)), best)
            self._compare_later(later)
        return answer

    def learn(self, events: Sequence[PostedEvent], results: Sequence[EventResult]) -> None:
        """Compare the labels of new events with what both models said before."""
        sides = self._sides
        for event, result in zip(events, results, strict=True):
            given = event.item if event.item is not None else event.features.get(sides.first.loaded.item)
            item = sides.first.loaded.item_of({sides.first.loaded.item: given})
            seen = sides.predictions.take(event.user, item) if result.status == "added" and item else None
            if seen is not None:
                sides.pair.joined(seen, event.label)

    def forget(self, user: str) -> None:
        """Keep nothing of a user."""
        self._sides.second.live_users.drop(user)
        self._sides.predictions.forget(user)

    def _sides_of(self, first: Engine, second: Engine) -> _Sides:
        one, other = first.loaded.version, second.loaded.version
        predictions = Predictions(self._memory, f"{one} {other}")
        return _Sides(first, second, Pair(self._figures, one, other), predictions)

    def _ask(
        self, request: PredictRequest | RecommendRequest, question: Callable[[Engine], Answer]
    ) -> tuple[_Sides, bool, Answer]:
        """The answer of the model whose turn it is. Where the second one fails, the first one answers."""
        sides = self._sides
        if self.split is not None and request.user is not None and self.split.has(request.user):
            try:
                return sides, True, question(sides.second)
            except NotAtOnceError:
                raise
            except Exception:  # noqa: S110  # told when the second one is asked again, for the comparison
                pass
        return sides, False, question(sides.first)

    def _compare_later(self, answered: _Answered) -> None:
        try:
            self._waiting.put_nowait(answered)
        except queue.Full:
            answered.sides.pair.left_out(FULL)
            return
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="shadow", daemon=True)
                    self._thread.start()

    def _work(self) -> None:
        while True:
            answered = self._waiting.get()
            began = time.perf_counter()
            try:
                _compare(answered)
            except Exception as error:
                _log_failure(error)
                answered.sides.pair.left_out(FAILED)
            time.sleep(time.perf_counter() - began)


def check_second(first: LoadedModel, second: LoadedModel, named: str) -> None:
    """Refuse a second model that cannot answer the same requests from the same store."""
    mine, wanted = second.meaning, first.meaning
    if mine != wanted:
        names = sorted({name for name, _ in mine.fields ^ wanted.fields} or {mine.item, wanted.item})
        raise ConfigError(
            f"--shadow {named} reads other fields than the first model ({', '.join(names)}): both models need the same "
            "item and fields"
        )
    if first.label is not None and second.label is not None and first.label != second.label:
        raise ConfigError(
            f"--shadow {named} has another user or label than the first model ({second.label} instead of "
            f"{first.label}): both models need the same ones"
        )
    if first.catalogue and not second.catalogue:
        raise ConfigError(f"--shadow {named} has no catalogue, but the first model has one: export it")


def _compare(answered: _Answered) -> None:
    """Let the other model score the same, and count how alike they are."""
    sides, request = answered.sides, answered.request
    other = sides.first if answered.by_second else sides.second
    if isinstance(request, PredictRequest):
        asked = request.model_copy(update={"explain": False, "deviation": False, "top": None, **WITHOUT_EXPLORING})
        theirs = other.score(asked)
        scores = theirs.scores.basis + theirs.scores.residual
        same_best = bool(np.argmax(scores) == np.argmax(answered.logits))
    else:
        theirs = other.score(_about_items(request, answered.items))
        scores = theirs.scores.basis + theirs.scores.residual
        best = other.recommend(request.model_copy(update={"top": 1, "describe": False, **WITHOUT_EXPLORING})).answers
        same_best = bool(best) and best[0].item == answered.best
    if theirs.support != answered.support:
        sides.pair.left_out(LATE)  # an event that only the other one knows would favour it
        return
    pair = (scores, answered.logits) if answered.by_second else (answered.logits, scores)
    sides.pair.compared(*pair, same_best=same_best, by_second=answered.by_second)
    if request.user is not None:
        places = list(answered.shown)
        items = [answered.items[place] for place in places]
        one, two = (logits[places] for logits in pair)
        sides.predictions.note(request.user, items, one, two, by_second=answered.by_second)


def _about_items(request: RecommendRequest, items: Sequence[str | None]) -> PredictRequest:
    """The same question about the items of an answer."""
    return PredictRequest(
        user=request.user,
        events=request.events,
        context=request.context,
        items=[item for item in items if item is not None],
    )


def _log_failure(error: Exception) -> None:
    """Without its message, which could reveal what a user did."""
    log.warning("a model of the experiment failed on a request (%s); the answer is not changed", type(error).__name__)
