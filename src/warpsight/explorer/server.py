"""The explorer's server: its page, and what the page asks for, on localhost, for who has the token of the URL."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warpsight._version import __version__
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.explorer.changes import changes
from warpsight.explorer.designs import checked_designs, choices, gpu_of, key_rows, key_settings
from warpsight.explorer.examples import examples
from warpsight.explorer.faults import error_document
from warpsight.explorer.project import Project
from warpsight.explorer.question import FILES, MOST_TEXT, known_gpu, question_of
from warpsight.explorer.results import Results
from warpsight.explorer.runs import Event, Runs
from warpsight.explorer.worker import Limits, warm
from warpsight.gpu.spec import GpuSpec
from warpsight.models.base import model_names
from warpsight.reports.html.page import checked_page

_MOST_BODY = 4 * MOST_TEXT
_API, _PAGES = "/api/", "/pages/"
_PING_S = 15.0
_POLICY = ("default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
           "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")  # fmt: skip
# A report has a policy of its own, by the hash of its script; here it is a document of no origin, in a frame of the page.
_PAGE_POLICY = "sandbox allow-scripts; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
_HEADERS = {
    "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}  # fmt: skip
_BUILT = "built"
ADDRESS = "127.0.0.1"


class Explorer:
    """The explorer of the project in `folder`, on this machine's `port` (0: any free one). `url` has the token.

    Raises UsageError for a folder or a port that cannot be used.
    """

    def __init__(self, folder: str | Path, port: int, limits: Limits) -> None:
        token = secrets.token_urlsafe(16)
        results, project = Results(folder), Project(folder)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((ADDRESS, port))
        except OSError as error:
            self._socket.close()
            what = f"port {port} is not available: {error.strerror or error}"
            raise UsageError(what, place="port", remedy="give another one, or 0 for any free port") from None
        port = self._socket.getsockname()[1]
        hosts = frozenset(f"{name}:{port}" for name in (ADDRESS, "localhost"))
        self.url = f"http://{ADDRESS}:{port}/#{token}"
        self._application = application(Api(results, project, Runs(project, limits), token), hosts)

    def serve(self) -> None:
        """Answer until interrupted."""
        warm()
        config = uvicorn.Config(self._application, log_level="error", access_log=False, timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[self._socket])


def application(api: Api, hosts: frozenset[str]) -> ASGIApp:
    """The explorer that `api` answers for, for requests to one of `hosts` (with their port) that have its token."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await api.runs.close()

    routes = [
        Route("/api/start", api.start),
        Route("/api/runs", api.ask, methods=["POST"]),
        Route("/api/runs/{run}", api.cancel, methods=["DELETE"]),
        Route("/api/runs/{run}/events", api.events),
        Route("/api/runs/{run}/designs", api.designs, methods=["POST"]),
        Route("/api/gpus/{gpu}/keys", api.keys),
        Route("/api/gpus/{gpu}/settings", api.settings),
        Route("/api/versions", api.versions),
        Route("/api/versions/{number:int}", api.version),
        Route("/api/versions/{number:int}/report", api.report),
        Route("/api/changes/{before:int}/{after:int}", api.changes),
        Route("/api/results", api.found),
        Route("/api/results/{idents}", api.found_page),
        Route("/pages/{key}/{kind}/{ident}", api.page),
        Mount("/", StaticFiles(directory=Path(str(files(__package__))) / _BUILT, html=True)),
    ]
    handlers: Any = {WarpsightError: _refused}
    return Guard(Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers), hosts, api.token)


class Guard:
    """In front of the application: whose requests are answered, how long they may be, and the headers of all answers.

    The name of the host keeps out pages of other sites whose names resolve to this machine; the origin and the token, which no
    other site knows and no cookie carries, keep out requests that other sites send.
    """

    def __init__(self, inner: ASGIApp, hosts: frozenset[str], token: str) -> None:
        self._inner, self._hosts, self._token = inner, hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return

        is_page = scope["path"].startswith(_PAGES)
        headers = {**_HEADERS, "Content-Security-Policy": _PAGE_POLICY if is_page else _POLICY,
                   "X-Frame-Options": "SAMEORIGIN" if is_page else "DENY"}  # fmt: skip

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((k.lower().encode(), v.encode()) for k, v in headers.items())]
            await send(message)

        refusal = self._refusal(Request(scope))
        answering: ASGIApp = self._inner if refusal is None else refusal
        await answering(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        host, origin = request.headers.get("host", "").lower(), request.headers.get("origin")
        if host not in self._hosts:
            return _error(403, "requests to other hosts are refused")
        if origin is not None and origin.lower() != f"http://{host}":
            return _error(403, "requests of other origins are refused")
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if request.url.path.startswith(_API) and not secrets.compare_digest(given.encode(), self._token.encode()):
            return _error(401, "the token is missing or wrong: open the URL that `warpsight serve` has printed")
        return None


def _error(status: int, what: str) -> JSONResponse:
    return JSONResponse({"error": error_document(UsageError(what))}, status)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, WarpsightError)
    return JSONResponse({"error": error_document(error)}, 422)


class Api:
    """What the page asks for: about the results and the versions of a folder, and what is running. `token` lets in."""

    def __init__(self, results: Results, project: Project, runs: Runs, token: str) -> None:
        self.results, self.project, self.runs, self.token = results, project, runs, token

    def path_of(self, kind: str, ident: str) -> str:
        """The path of a report that a frame shows. A frame sends no token: its path has a key that follows from it."""
        return f"pages/{self._key(f'{kind}/{ident}')}/{kind}/{ident}"

    def _key(self, name: str) -> str:
        return hmac.new(self.token.encode(), name.encode(), "sha256").hexdigest()[:32]

    async def start(self, request: Request) -> Response:
        """What a page needs to begin: GPUs, models, examples, and the colours of components as in reports."""
        known = [{"name": each.name, "title": each.title, "question": each.question.to_json()} for each in examples()]
        return JSONResponse(
            {"version": __version__, "project": str(self.project.folder.resolve()), "models": model_names(), "examples": known,
             "languages": list(FILES), **choices()}
        )  # fmt: skip

    async def ask(self, request: Request) -> Response:
        """Begin to answer a question: {"session": TEXT, "question": {...}} gives {"run": TEXT}."""
        document = await _body(request)
        session = document.get("session") if isinstance(document, dict) else None
        if not isinstance(session, str) or not session:
            raise UsageError("is missing", place="session", remedy="send a text that is the same for all questions of a page")
        return JSONResponse({"run": self.runs.ask(session, question_of(document.get("question"))).ident}, 202)

    async def cancel(self, request: Request) -> Response:
        """End a run. One that has ended stays as it is."""
        self.runs.cancel(request.path_params["run"])
        return Response(status_code=204)

    async def events(self, request: Request) -> Response:
        """The events of a run from the beginning, or after `Last-Event-ID`, as server-sent events."""
        run = self.runs.find(request.path_params["run"])
        if run is None:
            return _error(404, "there is no such run (any more)")
        last = request.headers.get("last-event-id", "0")
        return StreamingResponse(_sent(run.follow(int(last) if last.isdecimal() else 0)), media_type="text/event-stream")

    async def designs(self, request: Request) -> Response:
        """The kernel of an answer on other GPUs: {"designs": [{"gpu", "overrides"}]} gives a prediction or an `error` for each."""
        wanted = checked_designs(await _body(request))
        run = self.runs.find(request.path_params["run"])
        if run is None:
            return _error(404, "there is no such run (any more)")
        return JSONResponse({"designs": await self.runs.designs(run, wanted)})

    async def keys(self, request: Request) -> Response:
        """The keys of a GPU with its own values; the query `set=key=value`, any number of times, changes the GPU."""
        return JSONResponse(await asyncio.to_thread(lambda: key_rows(_gpu(request))))

    async def settings(self, request: Request) -> Response:
        """The values of sliders, for the keys of the query `key`."""
        wanted = request.query_params.getlist("key")
        return JSONResponse(await asyncio.to_thread(lambda: [key_settings(_gpu(request), key) for key in wanted]))

    async def versions(self, request: Request) -> Response:
        """The rows of all versions."""
        rows = [asdict(each) | {"page": self.path_of("versions", str(each.number))} for each in self.project.versions()]
        return JSONResponse(rows)

    async def changes(self, request: Request) -> Response:
        """Two versions side by side."""
        numbers = request.path_params["before"], request.path_params["after"]
        return JSONResponse(await asyncio.to_thread(changes, self.project, *numbers))

    async def found(self, request: Request) -> Response:
        """The results of the folder, and the other files."""
        rows, others = await asyncio.to_thread(lambda: (self.results.rows(), self.results.others()))
        return JSONResponse({"results": rows, "others": others})

    async def found_page(self, request: Request) -> Response:
        """The path of the report of a result, or of two compared, `IDENT+IDENT`."""
        idents = request.path_params["idents"]
        await asyncio.to_thread(self.results.page, idents)  # what cannot be shown is said here
        return JSONResponse({"page": self.path_of("results", idents)})

    async def page(self, request: Request) -> Response:
        """A report, for a frame that has its key."""
        key, kind, ident = (request.path_params[name] for name in ("key", "kind", "ident"))
        if not secrets.compare_digest(key.encode(), self._key(f"{kind}/{ident}").encode()):
            return _error(401, "the key of this report is wrong: open it from the explorer")
        return HTMLResponse(await asyncio.to_thread(self.results.page if kind == "results" else self._report, ident))

    async def version(self, request: Request) -> Response:
        """The question and the document of a version."""
        number = request.path_params["number"]
        question, document = self.project.question(number), await asyncio.to_thread(self.project.document, number)
        return JSONResponse({"question": question.to_json(), "document": document})

    async def report(self, request: Request) -> Response:
        """The report of a version: one file, which needs no server."""
        return HTMLResponse(await asyncio.to_thread(self._report, str(request.path_params["number"])))

    def _report(self, number: str) -> str:
        return checked_page(self.project.document(int(number)), f"version {number}")


def _gpu(request: Request) -> GpuSpec:
    return gpu_of(known_gpu(request.path_params["gpu"]), tuple(request.query_params.getlist("set")))


async def _body(request: Request) -> Any:
    """The JSON of a request's body. Raises UsageError for what is no JSON, and what is too long, before it is all read."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _MOST_BODY:
            raise UsageError(f"has more than {_MOST_BODY:,} bytes", place="request", remedy="ask about a shorter kernel")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError("is not JSON", place="request", remedy="send a question as JSON") from None


async def _sent(events: AsyncIterator[tuple[int, Event]]) -> AsyncIterator[str]:
    """Server-sent events; a comment now and then tells whether the browser is still there."""
    waiting = asyncio.ensure_future(anext(events, None))
    while True:
        done, _ = await asyncio.wait([waiting], timeout=_PING_S)
        if not done:
            yield ": waiting\n\n"
            continue
        found = waiting.result()
        if found is None:
            return
        number, event = found
        yield f"id: {number}\nevent: {event.kind}\ndata: {json.dumps(event.data)}\n\n"
        waiting = asyncio.ensure_future(anext(events, None))
