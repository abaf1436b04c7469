"""The log of the service: repeated lines are counted, and an exception shows only its kind and place."""

import io
import logging

from service_process import wait_until

from resus.serving.http.log_lines import CountingHandler, Line


def logger_on(handler: CountingHandler) -> tuple[logging.Logger, io.StringIO]:
    written = io.StringIO()
    handler.setStream(written)
    handler.setFormatter(Line("%(levelname)s %(message)s"))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    return logger, written


def test_a_repeated_line_is_written_once_and_counted() -> None:
    logger, written = logger_on(CountingHandler(window=0.5))
    for _ in range(1000):
        logger.warning("the %s is bad", "request")
    logger.error("the request is bad")
    wait_until(lambda: "more times" in written.getvalue(), "the end of the window")
    assert written.getvalue().splitlines() == [
        "WARNING the request is bad",
        "ERROR the request is bad",
        "WARNING the request is bad (999 more times)",
    ]
    logger.warning("the request is bad")
    assert written.getvalue().splitlines()[3:] == ["WARNING the request is bad"]


def test_different_lines_are_bounded() -> None:
    logger, written = logger_on(CountingHandler(window=0.5, lines=10))
    for number in range(1000):
        logger.warning("request %d is bad", number)
    wait_until(lambda: "further" in written.getvalue(), "the end of the window")
    assert len(written.getvalue().splitlines()) == 11
    assert written.getvalue().splitlines()[-1] == "WARNING 990 further lines were not written"


def test_an_exception_does_not_show_its_message() -> None:
    logger, written = logger_on(CountingHandler())
    try:
        raise RuntimeError("alice liked it")
    except RuntimeError:
        logger.exception("failed")
    assert "RuntimeError at " in written.getvalue()
    assert "alice" not in written.getvalue()
