"""The scored candidates of a request, as JSON for the wire or as messages for Python."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from resus.model.inference.model import Scores
from resus.serving.explored import Explored
from resus.serving.messages import Cause, ExplorationOfCandidates, KindOfParts, PredictAnswer, Reason, ScoredCandidate


class _Candidate(msgspec.Struct, gc=False):
    """`ScoredCandidate` on the wire: the same keys in the same order."""

    candidate: int
    item: str | msgspec.UnsetType
    probability: float
    basis: float
    residual: float
    deviation: float | None
    because: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    causes: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET


class _ExploredCandidate(_Candidate):
    """`ScoredCandidate` of a request that explores."""

    ranked_by: float = 0.0
    propensity: float = 0.0


class _Answer(msgspec.Struct):
    """`PredictAnswer` on the wire."""

    user: str | None
    support: int
    model: str
    parts: str | msgspec.UnsetType
    answers: list[_Candidate]
    exploration: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    warnings: list[str] | msgspec.UnsetType = msgspec.UNSET


_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, eq=False)
class Scored:
    """`items` are the ids of the candidates, `known` the ids of the user's events with their items."""

    user: str | None
    model: str
    items: Sequence[str | None]
    known: Sequence[tuple[str, str | None]]
    support: int
    scores: Scores
    top: int | None
    warnings: Sequence[str] = ()
    explored: Explored | None = None  # the order of the answers, if the request explores

    def as_json(self) -> bytes:
        """What `as_message` says, without an object of pydantic for each candidate."""
        unset = msgspec.UNSET
        candidates = [
            _Candidate(place, unset if item is None else item, probability, basis, residual, deviation)
            for place, item, probability, basis, residual, deviation in self._columns()
        ]
        if self.scores.explanation is not None:
            for candidate in candidates:
                because, causes = self._reasons(candidate.candidate)
                candidate.because = because
                candidate.causes = unset if causes is None else causes
        exploration: dict[str, Any] | msgspec.UnsetType = unset
        if self.explored is not None:
            both = zip(candidates, self.explored.by_answer(), strict=True)
            candidates = [_ExploredCandidate(*msgspec.structs.astuple(one), *told.values()) for one, told in both]
            exploration = self._exploration(self.explored)
        told = list(self.warnings) or unset
        kind = self._kind() or unset
        return _encode(_Answer(self.user, self.support, self.model, kind, candidates, exploration, told))

    def as_message(self) -> PredictAnswer:
        answers = []
        for place, item, probability, basis, residual, deviation in self._columns():
            optional: dict[str, Any] = {} if item is None else {"item": item}
            if self.scores.explanation is not None:
                because, causes = self._reasons(place)
                optional["because"] = [Reason(**reason) for reason in because]
                if causes is not None:
                    optional["causes"] = [Cause(**cause) for cause in causes]
            answers.append(
                ScoredCandidate(
                    candidate=place,
                    probability=probability,
                    basis=basis,
                    residual=residual,
                    deviation=deviation,
                    **optional,
                )
            )
        kind = self._kind()
        more: dict[str, Any] = {} if kind is None else {"parts": kind}
        if self.explored is not None:
            both = zip(answers, self.explored.by_answer(), strict=True)
            answers = [answer.model_copy(update=told) for answer, told in both]
            more["exploration"] = ExplorationOfCandidates(**self._exploration(self.explored))
        if self.warnings:
            more["warnings"] = list(self.warnings)
        return PredictAnswer(
            user=self.user,
            support=self.support,
            model=self.model,
            answers=answers,
            **more,
        )

    @staticmethod
    def _exploration(explored: Explored) -> dict[str, Any]:
        return {**explored.facts(), "greedy": explored.greedy.tolist()}

    def _kind(self) -> KindOfParts | None:
        explanation = self.scores.explanation
        if explanation is None or not self.support:
            return None
        return "leave-one-out" if explanation.leave_one_out else "shares"

    def _columns(self) -> Any:
        """Place, item, probability, basis, residual and deviation of each answer, in the order of the answers."""
        scores = self.scores
        places, items, probability = range(len(self.items)), self.items, scores.probability
        columns = [probability, scores.basis, scores.residual]
        if scores.deviation is not None:
            columns.append(scores.deviation)
        if self.explored is not None or self.top is not None:
            order = np.argsort(-probability, kind="stable") if self.explored is None else self.explored.order
            order = order[: self.top]
            columns = [column[order] for column in columns]
            places = order.tolist()
            items = [items[place] for place in places]
        lists: list[list[Any]] = [column.tolist() for column in columns]
        if scores.deviation is None:
            lists.append([None] * len(items))
        return zip(places, items, *lists, strict=True)

    def _reasons(self, place: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
        """Why the score of one candidate is what it is: by event, and by cause if the learner knows causes."""
        explanation, item = self.scores.explanation, self.items[place]
        assert explanation is not None
        own = [item is not None and its_item == item for _, its_item in self.known]
        because = [
            {"event": self.known[event][0], "item": self.known[event][1], "part": part}
            for event, part in explanation.events_of(place, own)
        ]
        if not explanation.causes:
            return because, None
        return because, [{"cause": cause, "part": part} for cause, part in explanation.causes_of(place).items()]
