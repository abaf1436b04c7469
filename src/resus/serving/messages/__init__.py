"""Requests and answers of the service, as JSON: one file per group of routes."""

from resus.serving.messages.events import EventResult, EventsAnswer, EventsRequest, InlineEvent, PostedEvent
from resus.serving.messages.explore import Exploration
from resus.serving.messages.items import CatalogueAnswer, CatalogueItem, Changed, ItemRequest
from resus.serving.messages.model import Bounds, FieldAnswer, ModelAnswer, Reloaded, Role
from resus.serving.messages.operations import Health, Refusal
from resus.serving.messages.predict import (
    Cause,
    ExplorationOfCandidates,
    KindOfParts,
    PredictAnswer,
    PredictRequest,
    Reason,
    ScoredCandidate,
)
from resus.serving.messages.recommend import ExplorationOfItems, RecommendAnswer, Recommended, RecommendRequest
from resus.serving.messages.results import MetricAnswer, PastEvent, ResultsAnswer, UserHistory
from resus.serving.messages.users import Deleted, ProfileAnswer, ProfileRequest, StoredEvent, UserAnswer
from resus.serving.messages.values import Candidate, FieldValues, Filter, Id, IdInPath, Ids, Label, Message, Time

__all__ = [
    "Bounds",
    "Candidate",
    "CatalogueAnswer",
    "CatalogueItem",
    "Cause",
    "Changed",
    "Deleted",
    "EventResult",
    "EventsAnswer",
    "EventsRequest",
    "Exploration",
    "ExplorationOfCandidates",
    "ExplorationOfItems",
    "FieldAnswer",
    "FieldValues",
    "Filter",
    "Health",
    "Id",
    "IdInPath",
    "Ids",
    "InlineEvent",
    "ItemRequest",
    "KindOfParts",
    "Label",
    "Message",
    "MetricAnswer",
    "ModelAnswer",
    "PastEvent",
    "PostedEvent",
    "PredictAnswer",
    "PredictRequest",
    "ProfileAnswer",
    "ProfileRequest",
    "Reason",
    "RecommendAnswer",
    "RecommendRequest",
    "Recommended",
    "Refusal",
    "Reloaded",
    "ResultsAnswer",
    "Role",
    "ScoredCandidate",
    "StoredEvent",
    "Time",
    "UserAnswer",
    "UserHistory",
]
