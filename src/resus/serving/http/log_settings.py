"""How the service logs: as lines of text or of JSON, and whether each request gets a line."""

import json
import logging
import time
from dataclasses import dataclass
from typing import Any

from resus.serving.http.log_lines import Line


@dataclass(frozen=True)
class LogSettings:
    """`access` asks for a line per request, `ids` for paths as they were sent, which hold ids of users."""

    as_json: bool = False
    access: bool = False
    ids: bool = False

    def config(self) -> dict[str, Any]:
        """For `logging.config`."""
        text = {
            "class": "resus.serving.http.log_lines.Line",
            "format": "%(asctime)s %(levelname)s %(message)s",
        }
        objects = {"()": "resus.serving.http.log_settings.JsonLine"}
        return {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": objects if self.as_json else text},
            "handlers": {"stderr": {"class": "resus.serving.http.log_lines.CountingHandler", "formatter": "line"}},
            "loggers": {
                "resus": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
                "uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
                "asyncio": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
            },
        }


class JsonLine(Line):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        facts = {"message": record.getMessage(), "logger": record.name}
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return json_line(record.levelname, facts, record.created)


def json_line(level: str, facts: dict[str, Any], seconds: float | None = None) -> str:
    """One JSON object with the time in UTC; `seconds` are since 1970."""
    seconds = time.time() if seconds is None else seconds
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return json.dumps({"time": f"{at}.{int(seconds % 1 * 1000):03d}Z", "level": level, **facts})
