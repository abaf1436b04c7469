"""The one place where Ψ, Φ, Λ and β meet: encode the rows, take the outcomes, ask the learner, fuse."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from resus.arrays import Floats, Integers
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch, Features, features_of, labels_of, padded
from resus.episodes.prefixes import OrderedUsers, Tile
from resus.model.devices import device_of_algebra
from resus.model.encoders.base import Encoder
from resus.model.fusion import Fusion
from resus.model.learners.base import Answer, Explanation, Learner, Posterior
from resus.model.predictors.base import Predictor
from resus.progress import Progress, silent


class Personalizer(nn.Module):
    """ŷ = σ(Ψ(x) + β·Δŷ). With a predictor that always gives 0 this is the paper's MUS.

    Its parameters and its state are those of Φ, Λ and β. The predictor keeps its own, because it is usually frozen.
    """

    predictor: Predictor

    def __init__(self, predictor: Predictor, encoder: Encoder, learner: Learner, fusion: Fusion) -> None:
        super().__init__()
        self.use_predictor(predictor)
        self.encoder = encoder
        self.learner = learner
        self.fusion = fusion

    def use_predictor(self, predictor: Predictor) -> None:
        """Answer with another Ψ from now on."""
        object.__setattr__(self, "predictor", predictor)  # torch would register it as a submodule

    @property
    def device(self) -> torch.device:
        """Where Φ runs; Ψ runs there too if it is a network."""
        weights = [*self.encoder.parameters(), *self.encoder.buffers()]
        return weights[0].device if weights else self.algebra

    @property
    def algebra(self) -> torch.device:
        """Where Λ and β run."""
        return next(self.fusion.parameters()).device

    def move(self, device: torch.device) -> "Personalizer":
        """Run on this device from now on; rows may be given on any device."""
        self.encoder.to(device)
        self.learner.to(device_of_algebra(device))
        self.fusion.to(device_of_algebra(device))
        self.predictor.move(device)
        return self

    def on_cpu(self) -> "Personalizer":
        """The model, or a copy of it, on the processor, where live users are kept."""
        if self.device.type == "cpu":
            return self
        return copy.deepcopy(self).move(torch.device("cpu"))

    def encode(self, features: Features) -> Tensor:
        """N rows → `[N, K]`, where Λ runs."""
        encoded: Tensor = self.encoder(features.to(self.device))
        return encoded.to(self.algebra)

    def crowd(self, features: Features, encoded: Tensor) -> Tensor:
        """N rows, and what `encode` made of them → the crowd's logits `[N]`."""
        return self.learner.crowd(self.predictor.logits(features).to(self.algebra), encoded)

    def forward(self, batch: EpisodeBatch, features: Features, basis: Tensor, labels: Tensor) -> Tensor:
        """All rows of a batch, Ψ's logits and labels `[N]` → logits of its queries `[Q]`; each row is encoded once."""
        encoded, labels = self.encode(features), labels.to(self.algebra)
        basis = self.learner.crowd(basis.to(self.algebra), encoded)
        query = batch.query.to(self.algebra)
        groups = batch.by_support_size()
        if len(groups) == 1:
            return basis.index_select(0, query) + self._added_in(batch, encoded, basis, labels)
        added, places = [], []
        for users in groups:
            rows = np.repeat(users, batch.lengths)
            chosen = torch.from_numpy(np.flatnonzero(rows)).to(self.algebra)
            own = (values.index_select(0, chosen) for values in (encoded, basis, labels))
            added.append(self._added_in(batch.part(users), *own))
            places.append(np.flatnonzero(rows[batch.query.numpy()]))
        in_order = torch.from_numpy(np.argsort(np.concatenate(places))).to(self.algebra)
        return basis.index_select(0, query) + torch.cat(added).index_select(0, in_order)

    @torch.no_grad()
    def score(
        self, events: Features, labels: Tensor, filled: Tensor, query: Features, query_user: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Queries of many users → the crowd's logits and what the events of each query's user add to them, both `[Q]`.

        The n events and their labels fill the slots `filled` `[U, S]`, user by user.
        """
        encoded = self.encode(query)
        basis = self.crowd(query, encoded)
        if not events.rows:
            return basis.cpu(), torch.zeros_like(basis).cpu()
        support = self.encode(events)
        outcomes = self.learner.outcomes(labels.to(self.algebra), self.crowd(events, support))
        filled, query_user = filled.to(self.algebra), query_user.to(self.algebra)
        added = self._added(padded(support, filled), filled, padded(outcomes, filled), encoded, query_user)
        return basis.cpu(), added.cpu()

    @torch.no_grad()
    def score_batch(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        """Logits of the queries of a batch."""
        features = features_of(log, batch.rows)
        logits = self(batch, features, self.predictor.logits(features), labels_of(log, batch.rows))
        found: Floats = logits.cpu().numpy()
        return found

    @torch.no_grad()
    def score_prefixes(
        self,
        log: InteractionLog,
        ordered: OrderedUsers,
        sizes: Sequence[int],
        *,
        basis: Floats | None = None,
        progress: Progress = silent,
        task: str = "scoring every support size",
    ) -> Floats:
        """Logits `[N, len(sizes)]` of the users' rows at every support size, in one pass.

        Column j of a row uses its user's first sizes[j] events. It is an honest answer only for rows after those.
        `basis` holds Ψ's logits of the same rows, if they are known already.
        """
        if basis is None:
            basis = self.predictor.logits_of_rows(log, ordered.rows)
        logits = np.empty((len(ordered.rows), len(sizes)), dtype=np.float32)
        done = 0
        for part in self._tiles(log, ordered, basis, max(sizes), whole=False):
            added = self._added_by_prefixes(part, sizes).cpu()[part.tile.filled].numpy()
            logits[part.places] = part.crowd.cpu().numpy()[:, None] + added
            done += len(part.places) - (part.tile.head if part.tile.skip else 0)
            progress(task, done, len(logits), "rows")
        return logits

    @torch.no_grad()
    def posteriors(
        self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int], *, basis: Floats
    ) -> Iterator[tuple["EncodedTile", Iterator[Posterior]]]:
        """How sure the learner is of each row's residual at every support size; only if it has a posterior."""
        slots = max(sizes)
        for part in self._tiles(log, ordered, basis, slots, whole=True):
            yield part, self.learner.posteriors(*part.support(slots), sizes)

    def live_support(self) -> "LiveSupport":
        """A live user without events."""
        return LiveSupport(self)

    def _added(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        """What the users' events add to the logits of encoded queries, `[Q]`."""
        answers = self.learner(support, mask, outcomes, query, query_user)
        added: Tensor = self.fusion(answers, mask.sum(dim=1).index_select(0, query_user))
        return added

    def _added_in(self, batch: EpisodeBatch, encoded: Tensor, basis: Tensor, labels: Tensor) -> Tensor:
        outcomes = self.learner.outcomes(labels, basis)
        users, slots = batch.support.shape
        places = batch.support.flatten().to(self.algebra)
        return self._added(
            encoded.index_select(0, places).view(users, slots, encoded.shape[1]),
            batch.mask.to(self.algebra),
            outcomes.index_select(0, places).view(users, slots, *outcomes.shape[1:]),
            encoded.index_select(0, batch.query.to(self.algebra)),
            batch.query_user.to(self.algebra),
        )

    def _added_by_prefixes(self, part: "EncodedTile", sizes: Sequence[int]) -> Tensor:
        """`[U, P, len(sizes)]`."""
        slots = min(max(sizes), part.encoded.shape[1])
        if slots:
            within = [min(max(size, 1), slots) for size in sizes]
            answers = self.learner.prefixes(*part.support(slots), part.encoded, within)
        else:
            answers = part.encoded.new_zeros(*part.encoded.shape[:2], len(sizes))
        added: Tensor = self.fusion(answers, torch.tensor(list(sizes), device=self.algebra))
        return added

    def _tiles(
        self, log: InteractionLog, ordered: OrderedUsers, basis: Floats, slots: int, *, whole: bool
    ) -> Iterator["EncodedTile"]:
        for tile in ordered.tiles(slots=slots, width=self.encoder.width, whole=whole):
            places = tile.places
            rows = ordered.rows[places]
            encoded = self.encode(features_of(log, rows))
            crowd = self.learner.crowd(torch.from_numpy(basis[places]).to(self.algebra), encoded)
            outcomes = self.learner.outcomes(labels_of(log, rows).to(self.algebra), crowd)
            yield EncodedTile(tile, places, crowd, tile.pad(encoded), tile.pad(outcomes))


@dataclass(frozen=True, eq=False)
class EncodedTile:
    """Some users, encoded and padded; `places` are those of their rows in `ordered.rows`."""

    tile: Tile
    places: Integers  # [n]
    crowd: Tensor  # [n], logits without events
    encoded: Tensor  # [U, P, K]
    outcomes: Tensor  # [U, P, …]

    def support(self, slots: int) -> tuple[Tensor, Tensor, Tensor]:
        """The first rows of each user as support, mask and outcomes."""
        filled = self.tile.filled[:, :slots].to(self.encoded.device)
        return self.encoded[:, :slots], filled, self.outcomes[:, :slots]


@dataclass(frozen=True, eq=False)
class Scores:
    """For N candidates: P(click) = σ(basis + residual)."""

    basis: Tensor  # [N]
    residual: Tensor  # [N]
    deviation: Tensor | None  # [N], of the residual
    explanation: Explanation | None  # of the residual, if it was asked for

    @property
    def probability(self) -> Tensor:
        return (self.basis + self.residual).sigmoid()


class LiveSupport:
    """The events of one live user, the oldest first.

    After any sequence of changes the scores are those that the model gives offline for the same support.
    """

    def __init__(self, model: Personalizer) -> None:
        self._model = model
        self._state = model.learner.live_state(model.encoder.width)
        self._basis: list[float] = []  # the crowd's logits, to compute the outcome of a corrected label

    def __len__(self) -> int:
        return len(self._state)

    @torch.no_grad()
    def fill(self, events: Features, labels: Tensor) -> None:
        """Replace all events."""
        encoded = self._model.encoder(events)
        basis = self._model.learner.crowd(self._model.predictor.logits(events), encoded)
        self._state.fill(encoded, self._model.learner.outcomes(labels, basis))
        self._basis = basis.tolist()

    @torch.no_grad()
    def insert(self, place: int, event: Features, label: float, *, drop_oldest: bool = False) -> None:
        """Add an event, one row, at a place among the events; an event without a logit is refused and changes nothing.

        With `drop_oldest` the first event goes first.
        """
        encoded = self._model.encoder(event)
        basis = self._model.learner.crowd(self._model.predictor.logits(event), encoded).squeeze(0)
        encoded = encoded.squeeze(0)
        if drop_oldest:
            self.remove(0)
            place -= 1
        self._state.insert(place, encoded, self._model.learner.outcomes(torch.tensor(label), basis))
        self._basis.insert(place, float(basis))

    @torch.no_grad()
    def correct(self, place: int, label: float) -> None:
        """Replace the label of an event."""
        outcome = self._model.learner.outcomes(torch.tensor(label), torch.tensor(self._basis[place]))
        self._state.correct(place, outcome)

    @torch.no_grad()
    def remove(self, place: int) -> None:
        self._state.remove(place)
        del self._basis[place]

    @torch.no_grad()
    def score(self, candidates: Features, *, explain: bool = False) -> Scores:
        """Without events the answer is the crowd's; a learner with a posterior says how much users deviate from it."""
        model = self._model
        encoded = model.encoder(candidates)
        basis = model.learner.crowd(model.predictor.logits(candidates), encoded)
        answer = Answer.without_events(len(basis), explain=explain)
        if len(self) or model.learner.has_posterior:
            answer = model.fusion.of_answer(self._state.answer(encoded, explain=explain), len(self))
        return Scores(basis, answer.residual, answer.deviation, answer.explanation)
