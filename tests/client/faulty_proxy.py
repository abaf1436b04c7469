"""A proxy before a real service that fails as it is told: an answer is lost, a request never arrives, a refusal."""

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

Fault = str | tuple[int, dict[str, str], bytes]  # "lose request", "lose answer", "hang", or an answer


class FaultyProxy(ThreadingHTTPServer):
    """Does one fault per request, in order, then passes requests on."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.faults: deque[Fault] = deque()
        self.bodies: list[bytes] = []
        self.over = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: FaultyProxy
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        proxy = self.server
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        proxy.bodies.append(body)
        fault = proxy.faults.popleft() if proxy.faults else None
        if fault == "hang":
            proxy.over.wait(60)
        if fault in ("hang", "lose request"):
            self.close_connection = True
            return
        if isinstance(fault, tuple):
            status, headers, content = fault
        else:
            kept = {name: self.headers[name] for name in ("authorization", "content-type") if name in self.headers}
            answer = httpx.request(
                self.command, proxy.target + self.path, content=body, headers=kept, timeout=60, verify=False
            )
            status, headers, content = answer.status_code, dict(answer.headers), answer.content
        if fault == "lose answer":
            self.close_connection = True
            return
        self.send_response(status)
        for name in headers.keys() - {"content-length", "connection", "date", "server"}:
            self.send_header(name, headers[name])
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815  # the names of the standard library

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def faulty_proxy(target: str) -> Iterator[FaultyProxy]:
    with FaultyProxy(target) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield proxy
        finally:
            proxy.over.set()
            proxy.shutdown()
            thread.join()
