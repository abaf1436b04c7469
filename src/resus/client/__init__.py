"""A client of the service, for programs: typed answers, and retries that never count an event twice.

from resus import Client

with Client("http://127.0.0.1:8000") as service:
    service.add_events([{"user": "ada", "item": "7", "label": True}])
    print(service.recommend(user="ada", top=3).answers)

It needs httpx (`pip install 'resus[client]'`) and loads neither torch nor numpy.
"""

from resus.errors import (
    BadRequestError,
    BrokenAnswerError,
    BusyError,
    ConflictError,
    FailedServiceError,
    NoAnswerError,
    NotAllowedError,
    NotFoundError,
    ServiceError,
)
from resus.extras import need

need("client", "resus.Client")  # before the imports that would fail without it

from resus.client.asynchronous import AsyncClient  # noqa: E402
from resus.client.sync import Client  # noqa: E402

__all__ = [
    "AsyncClient",
    "BadRequestError",
    "BrokenAnswerError",
    "BusyError",
    "Client",
    "ConflictError",
    "FailedServiceError",
    "NoAnswerError",
    "NotAllowedError",
    "NotFoundError",
    "ServiceError",
]
