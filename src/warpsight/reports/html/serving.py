"""A read-only server on localhost for a folder of results: a list, and reports of one result or of two, reloaded on changes."""

from __future__ import annotations

import sys
from functools import lru_cache
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from warpsight.analysis.report_data.files import ResultFile, ResultFolder
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.reports.formats import plain
from warpsight.reports.html.page import checked_page, list_page

ADDRESS = "127.0.0.1"
_KEPT = 32
_TIMEOUT_SECONDS = 30.0


class Server(ThreadingHTTPServer):
    """Serves the `results` at `url`. Raises UsageError if the port is in use."""

    daemon_threads = True
    request_queue_size = 128  # a browser with several pages asks for many at once

    def __init__(self, results: ResultFolder, port: int) -> None:
        self.results = results
        self.pages = lru_cache(_KEPT)(self._page)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            what = f"port {port} is not available: {error.strerror or error}"
            raise UsageError(what, place="port", remedy="give another one, or 0 for any free port") from None
        self.url = f"http://{ADDRESS}:{self.server_address[1]}/"
        # a page of another site must not read ours through a host name that resolves to this machine
        self.hosts = {f"{name}:{self.server_address[1]}" for name in (ADDRESS, "localhost")}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong with a request, unless its client went away, which is no error: a page is closed or reloaded."""
        error = sys.exception()
        if not isinstance(error, (ConnectionError, TimeoutError)):
            print(f"error: a request failed: {type(error).__name__}: {error}", file=sys.stderr)

    def _page(self, *items: ResultFile) -> str:
        """The current page of a result, or of two compared; items change with their files: a cached page is never out of date."""
        document = self.results.report_data(*items) if len(items) == 1 else self.results.comparison(items)
        return checked_page(plain(document), " or ".join(item.name for item in items), live=True)


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of `/`, `/show/IDENT`, `/stamp/IDENT` and `/compare?result=IDENT&result=IDENT`, which leads to
    `/show/IDENT+IDENT`. Idents are looked up, so no path reaches the disk.
    """

    server: Server
    timeout = _TIMEOUT_SECONDS  # of each read and write: a client that says nothing holds no thread for ever

    def do_GET(self) -> None:
        """Answer one request."""
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            self._send(HTTPStatus.FORBIDDEN, "requests from other hosts are refused", "text/plain")
            return
        path, _, query = self.path.partition("?")
        kind, _, idents = path.removeprefix("/").partition("/")
        if not kind:
            self._send(HTTPStatus.OK, list_page(str(self.server.results.folder), *self.server.results.listing()))
            return
        if kind == "compare":
            self._compare(parse_qs(query).get("result", []))
            return
        asked = idents.split("+") if kind in ("show", "stamp") else []
        items = [item for ident in asked if (item := self.server.results.item(ident))]
        if len(items) != len(asked) or len(items) not in (1, 2):
            self._send(HTTPStatus.NOT_FOUND, "no such result", "text/plain")
        elif kind == "stamp":
            self._send(HTTPStatus.OK, " ".join(item.stamp for item in items), "text/plain")
        else:
            self._show(items)

    do_HEAD = do_GET  # noqa: N815 (the name is http.server's)

    def _compare(self, asked: list[str]) -> None:
        """Lead to the page of the two results that were ticked in the list."""
        if len(asked) == 2 and all(map(self.server.results.item, asked)):
            self._send(HTTPStatus.SEE_OTHER, "", location=f"/show/{asked[0]}+{asked[1]}")
        else:
            self._error("Compare", f"a comparison is of two results, and {len(asked)} were ticked")

    def _show(self, items: list[ResultFile]) -> None:
        try:
            self._send(HTTPStatus.OK, self.server.pages(*items))
        except WarpsightError as error:
            self._error(", ".join(item.name for item in items), str(error))

    def _error(self, title: str, what: str) -> None:
        head, body = f"<!DOCTYPE html><title>{escape(title)}</title>", f"<pre>error: {escape(what)}</pre>"
        self._send(HTTPStatus.UNPROCESSABLE_ENTITY, f"{head}{body}<p><a href='/'>All results</a></p>")

    def _send(self, status: HTTPStatus, text: str, kind: str = "text/html", location: str = "") -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"), ("Content-Length", str(len(body))), ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "DENY"),
            *([("Location", location)] if location else []),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """No log: a page polls every second."""
