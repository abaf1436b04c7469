"""DIN with labels: the candidate attends to the user's events, in a network on top of the shared model.

Zhou et al. 2018, "Deep Interest Network for Click-Through Rate Prediction". Their histories hold clicks only. Here each
event also says what its label was, and how much the label surprised the shared model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from resus.arrays import Floats
from resus.baselines.base import Task
from resus.baselines.shelf import cross_fitted_predictor
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.log import InteractionLog
from resus.data.log.user_fields import user_fields
from resus.episodes.batch import EpisodeBatch, Features, features_of, labels_of, padded
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.sampling import EpisodeSampler, Epoch
from resus.history import EpochRecord, History
from resus.model.encoders.base import FieldEmbedding
from resus.model.predictors.base import Predictor
from resus.randomness import Purpose, generator
from resus.training.loop import Schedule, run_stage
from resus.training.rowwise_adam import RowwiseAdam, adam_of

EMBEDDING_DIM = 24
EMBEDDING_STD = 0.5
UNIT = (24, 16)  # layers of the activation unit
DEEP = (64, 32)  # layers on top of it
SHRINKAGE = 5.0  # the mean over all events counts this many extra events that say nothing
AVERAGED = 0.99  # scores come from a running average of the weights, over about the last hundred batches
PAIRS = 1 << 16  # of a candidate and an event, to work on at once


class Events(NamedTuple):
    """The supports of U users; empty slots are 0."""

    vectors: Tensor  # v, [U, S, D]
    surprises: Tensor  # [U, S], label minus Ψ's probability
    filled: Tensor  # [U, S]


class InterestNetwork(nn.Module):
    """What a user's k events add to Ψ's logit of a candidate; nothing if there are none, and before training.

    c embeds the candidate's fields, except those that describe the user. An event is v = x + label + surprise·w, where
    x embeds its fields in the same way. Its weight for the candidate, a = unit(c, v, c − v, c∘v), is not normalised, so
    that a strong interest stays strong. The answer is deep(all fields, Σ a·v, mean v, log k), plus a short path from
    Σ a·surprise and the mean surprise.
    """

    def __init__(self, features: FeatureMap, fields_of_user: Sequence[int]) -> None:
        super().__init__()
        self.embedding = FieldEmbedding(features.n_ids, features.column_counts, EMBEDDING_DIM, std=EMBEDDING_STD)
        with torch.no_grad():
            self.embedding.table[list(features.first_ids)] = 0.0  # a value never seen says nothing
        self.attended = [number for number in range(len(features.fields)) if number not in fields_of_user]
        width, every = len(self.attended) * EMBEDDING_DIM, len(features.fields) * EMBEDDING_DIM
        self.label = nn.Parameter(0.1 * torch.randn(2, width))
        self.surprise = nn.Parameter(0.1 * torch.randn(width))  # w

        # The unit's first layer in three parts. A fourth, for c − v, would add nothing to those for c and v.
        self.unit_of_candidate = nn.Linear(width, UNIT[0])
        self.unit_of_event = nn.Linear(width, UNIT[0], bias=False)
        self.unit_of_product = nn.Parameter(_similarities(UNIT[0], len(self.attended)))
        self.unit = nn.Sequential(nn.PReLU(), nn.Linear(*UNIT), nn.PReLU(), nn.Linear(UNIT[1], 1))

        # The first layer on top in four parts, too: what an event adds to it is computed once for all candidates.
        self.deep_of_fields = nn.Linear(every, DEEP[0])
        self.deep_of_interest = nn.Linear(width, DEEP[0], bias=False)
        self.deep_of_mean = nn.Linear(width, DEEP[0], bias=False)
        self.deep_of_size = nn.Linear(1, DEEP[0], bias=False)
        output = nn.Linear(DEEP[1], 1)
        self.deep = nn.Sequential(nn.PReLU(), nn.Linear(*DEEP), nn.PReLU(), output)
        self.short = nn.Parameter(torch.zeros(2))
        with torch.no_grad():
            output.weight.zero_()
            output.bias.zero_()

    def forward(self, batch: EpisodeBatch, features: Features, basis: Tensor, labels: Tensor) -> Tensor:
        """All rows of a batch, Ψ's logits and labels `[N]` → what is added to its queries `[Q]`."""
        fields, codes = self.encode(features)
        support = batch.support
        events = self.events(codes[support], basis[support], labels[support], batch.mask)
        counts = batch.lengths - batch.support_sizes
        asked = torch.from_numpy(np.arange(counts.max(initial=0)) < counts[:, None])  # [U, P]
        queries = padded(fields[batch.query], asked), padded(codes[batch.query], asked)
        values, total = self._of_interest(events), self._of_mean(events).sum(dim=1, keepdim=True)
        answers = []
        for some_fields, some_codes in _parts(*queries, slots=support.shape[1]):
            interest = (self.weights(some_codes, events) @ values).unsqueeze(2)
            answers.append(self._answers(some_fields, interest, total, batch.sizes.unsqueeze(1)))
        return torch.cat(answers, dim=1)[asked].squeeze(1)

    def prefixes(self, fields: Tensor, codes: Tensor, events: Events, sizes: Sequence[int]) -> Tensor:
        """All fields and c of P candidates per user `[U, P, …]` → `[U, P, len(sizes)]`.

        An event's weight is the same at every size, so running sums over the events give all sizes at once.
        """
        slots = events.filled.shape[1]
        ends = torch.tensor([min(size, slots) for size in sizes])
        values, total = self._of_interest(events).unsqueeze(1), _sums(self._of_mean(events), ends)
        known = torch.tensor(list(sizes)).expand(len(fields), -1)
        answers = []
        for some_fields, some_codes in _parts(fields, codes, slots=slots):
            interest = _sums(self.weights(some_codes, events).unsqueeze(3) * values, ends)
            answers.append(self._answers(some_fields, interest, total, known))
        return torch.cat(answers, dim=1)

    def encode(self, features: Features) -> tuple[Tensor, Tensor]:
        """N rows → the vectors of all fields `[N, F·E]`, and of those that do not describe the user `[N, D]`."""
        vectors = self.embedding(features)
        return vectors.flatten(1), vectors[:, self.attended].flatten(1)

    def events(self, codes: Tensor, basis: Tensor, labels: Tensor, filled: Tensor) -> Events:
        """`[U, S, D]` codes, `[U, S]` Ψ's logits and labels of the supports."""
        surprises = (labels - basis.sigmoid()) * filled
        vectors = codes + self.label[labels.long()] + surprises.unsqueeze(2) * self.surprise
        return Events(vectors * filled.unsqueeze(2), surprises, filled)

    def weights(self, codes: Tensor, events: Events) -> Tensor:
        """a of P candidates `[U, P, D]` and S events per user: `[U, P, S]`."""
        users, places, width = codes.shape
        scaled = (events.vectors.unsqueeze(2) * self.unit_of_product).view(users, -1, width)  # [U, S·units, D]
        first = (codes @ scaled.transpose(1, 2)).view(users, places, -1, UNIT[0])  # [U, P, S, units]
        first = first + self.unit_of_candidate(codes).unsqueeze(2) + self.unit_of_event(events.vectors).unsqueeze(1)
        weights: Tensor = self.unit(first).squeeze(3) * events.filled.unsqueeze(1)
        return weights

    def _of_interest(self, events: Events) -> Tensor:
        """`[U, S, X]`: what each event adds per unit of its weight; last, its surprise."""
        return torch.cat([self.deep_of_interest(events.vectors), events.surprises.unsqueeze(2)], dim=2)

    def _of_mean(self, events: Events) -> Tensor:
        """`[U, S, X]`: what each event adds to the sum behind the mean; last, its surprise."""
        return torch.cat([self.deep_of_mean(events.vectors), events.surprises.unsqueeze(2)], dim=2)

    def _answers(self, fields: Tensor, interest: Tensor, total: Tensor, sizes: Tensor) -> Tensor:
        """`[U, P, F·E]`, sums over events `[U, P, J, X]` and `[U, J, X]`, how many they are `[U, J]` → `[U, P, J]`."""
        known = sizes.to(fields.dtype).unsqueeze(2)
        mean = total / (known + SHRINKAGE)
        of_history = interest[..., :-1] + (mean[..., :-1] + self.deep_of_size(known.log1p())).unsqueeze(1)
        answers: Tensor = self.deep(of_history + self.deep_of_fields(fields).unsqueeze(2)).squeeze(3)
        answers = answers + self.short[0] * interest[..., -1] + self.short[1] * mean[..., -1].unsqueeze(1)
        return torch.where(sizes.unsqueeze(1) > 0, answers, torch.zeros_like(answers))


@dataclass(eq=False, kw_only=True)
class DIN:
    """ŷ = σ(Ψ(x) + network(x, support)). Without events it is Ψ.

    The network learns from episodes of the training users, with logits of predictors that never saw them. An epoch has
    at least `batches` batches, so it makes several passes over few users; of a user, a pass takes at most `queries`
    queries. Validation users choose the epoch, by Logloss. If none beats Ψ, nothing is added.
    """

    learning_rate: float = 3e-3
    embedding_rate: float = 1e-3  # smaller, since a vector of few rows overfits soon
    epochs: int = 60
    patience: int = 3
    batches: int = 50
    queries: int = 50
    predictor: Predictor = field(init=False)
    network: InterestNetwork = field(init=False)

    def fit(self, task: Task) -> History:
        fitted = cross_fitted_predictor(task)
        log, logits = task.log, fitted.logits
        torch.manual_seed(task.config.seed)
        trained = InterestNetwork(log.features, user_fields(log, task.split.train))
        average = AveragedModel(trained, multi_avg_fn=get_ema_multi_avg_fn(AVERAGED))  # type: ignore[no-untyped-call]
        self.predictor, self.network = fitted.predictor, cast("InterestNetwork", average.module)

        def loss(batch: EpisodeBatch) -> Tensor:
            average.update_parameters(trained)  # with the step that the last batch led to
            basis, labels = torch.from_numpy(logits[batch.rows]), labels_of(log, batch.rows)
            added = trained(batch, features_of(log, batch.rows), basis, labels)
            return functional.binary_cross_entropy_with_logits(basis[batch.query] + added, labels[batch.query])

        def scores(ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
            return self._score_prefixes(log, ordered, sizes, logits[ordered.rows])

        def validate() -> float:
            return -task.validation_logloss(scores)

        state = run_stage(
            nn.ModuleDict({"trained": trained, "average": average}),
            self._optimizer(trained),
            Schedule(
                "interest",
                validate=validate,
                epochs=self.epochs,
                patience=self.patience,
                start=validate(),
                checkpoint=task.checkpoint("interest"),
                progress=task.progress,
            ),
            batches=partial(self._batches, task.sampler),
            loss=loss,
        )
        seconds = sum(record.seconds for record in state.history)
        reached = EpochRecord("interest", state.best_epoch, task.validation_auc(scores), seconds=seconds)
        return [*fitted.history, reached]

    @torch.no_grad()
    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        basis = torch.from_numpy(self.predictor.logits_of_rows(log, batch.rows))
        added = self.network(batch, features_of(log, batch.rows), basis, labels_of(log, batch.rows))
        logits: Floats = (basis[batch.query] + added).numpy()
        return logits

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        return self._score_prefixes(log, ordered, sizes, self.predictor.logits_of_rows(log, ordered.rows))

    @torch.no_grad()
    def _score_prefixes(
        self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int], basis: Floats
    ) -> Floats:
        logits = np.empty((len(ordered.rows), len(sizes)), dtype=np.float32)
        slots, network = max(sizes), self.network
        for tile in ordered.tiles(slots=slots):
            places = tile.places
            rows = ordered.rows[places]
            fields, codes = (tile.pad(values) for values in network.encode(features_of(log, rows)))
            known, labels = tile.pad(torch.from_numpy(basis[places])), tile.pad(labels_of(log, rows))
            events = network.events(codes[:, :slots], known[:, :slots], labels[:, :slots], tile.filled[:, :slots])
            added = network.prefixes(fields, codes, events, sizes)[tile.filled]
            logits[places] = basis[places, None] + added.numpy()
        return logits

    def _optimizer(self, network: InterestNetwork) -> RowwiseAdam:
        table = network.embedding.table
        others = [parameter for parameter in network.parameters() if parameter is not table]
        groups = [
            {"params": others, "lr": self.learning_rate},
            {"params": [table], "lr": self.embedding_rate},
        ]
        return adam_of(network, groups, table_rate=self.embedding_rate)

    def _batches(self, sampler: EpisodeSampler, epoch: int) -> list[EpisodeBatch]:
        found: list[EpisodeBatch] = []
        for number in count(epoch * self.batches):  # each pass has at least one batch, so no two epochs share a number
            found += with_fewer_queries(sampler, number, self.queries)
            if len(found) >= self.batches:
                break
        return found


def with_fewer_queries(sampler: EpisodeSampler, number: int, most: int) -> Epoch:
    """An epoch of the sampler with at most so many queries of each user, drawn at random."""
    whole = sampler.epoch(number)
    random = generator(Purpose.DIN_QUERIES, sampler.seed, number)
    owner = np.repeat(np.arange(len(whole.lengths)), whole.lengths)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(whole.lengths) - whole.lengths, whole.lengths)
    is_support = place < whole.support_sizes[owner]
    drawn = np.empty_like(place)  # the support first, then the queries in random order
    drawn[np.lexsort((random.random(len(owner)), ~is_support, owner))] = place
    kept = drawn < whole.support_sizes[owner] + most
    lengths = np.bincount(owner[kept], minlength=len(whole.lengths))
    batch_of_user = (np.cumsum(lengths) - lengths) // sampler.batch_size
    edges = np.append(np.flatnonzero(np.diff(batch_of_user, prepend=-1)), len(lengths))
    return Epoch(whole.rows[kept], lengths, whole.support_sizes, edges)


def _similarities(units: int, fields: int) -> Tensor:
    """`[units, D]` weights of c∘v: each unit starts from a random mix of the similarities of c and v in each field.

    A field's similarity is about 1 if both have the same value, and about 0 if not.
    """
    mixes = torch.randn(units, fields) / (EMBEDDING_DIM * EMBEDDING_STD**2)
    return mixes.repeat_interleave(EMBEDDING_DIM, dim=1)


def _sums(values: Tensor, ends: Tensor) -> Tensor:
    """`[…, S, X]` → `[…, J, X]`: the sums of the first `ends[j]` values."""
    return functional.pad(values.cumsum(dim=-2), (0, 0, 1, 0)).index_select(values.dim() - 2, ends)


def _parts(fields: Tensor, codes: Tensor, slots: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Some of the candidates `[U, P, …]` of each user at a time."""
    step = max(1, PAIRS // max(1, len(fields) * slots))
    return zip(torch.split(fields, step, dim=1), torch.split(codes, step, dim=1), strict=True)
