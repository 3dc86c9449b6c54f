"""The explorer's server: its page, and what the page asks for, on localhost, for who has the token of the URL; and read-only on
another address, for who has another token."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
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
from warpsight.analysis.report_data.files import DAMAGE
from warpsight.base.errors import FormatError, UsageError, WarpsightError
from warpsight.explorer.changes import changes
from warpsight.explorer.designs import checked_designs, choices, gpu_of, key_rows, key_settings
from warpsight.explorer.examples import examples
from warpsight.explorer.faults import error_document
from warpsight.explorer.project import Project
from warpsight.explorer.question import FILES, MOST_TEXT, known_gpu, question_of
from warpsight.explorer.results import Results
from warpsight.explorer.runs import Event, Runs
from warpsight.explorer.shown import shown
from warpsight.explorer.worker import Limits, warm
from warpsight.gpu.spec import GpuSpec
from warpsight.models.base import model_names
from warpsight.reports.html.page import accesses, checked_page

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
_IS_OWNER = "warpsight.is_owner"  # in the scope of a request
ADDRESS = "127.0.0.1"
_Answering = Callable[[Request], Awaitable[Response]]


class Explorer:
    """The explorer of the project in `folder`, on this machine's `port` (0: any free one). `url` has the token.

    With a `host`, an address of this machine or one for all of them (0.0.0.0), others can read there what is in the folder;
    `readers_url` has the token for it, else it is "". Raises UsageError for a folder, a port or an address that cannot be used.
    """

    def __init__(self, folder: str | Path, port: int, limits: Limits, host: str = "") -> None:
        token, readers = secrets.token_urlsafe(16), secrets.token_urlsafe(16) if host else ""
        results, project = Results(folder), Project(folder)
        everywhere = bool(host) and _address(host).is_unspecified
        self._sockets = [] if everywhere and ":" not in host else [_listening(ADDRESS, port)]
        if host not in ("", ADDRESS):
            try:
                self._sockets.append(_listening(host, self._sockets[0].getsockname()[1] if self._sockets else port))
            except UsageError:
                for each in self._sockets:
                    each.close()
                raise
        port = self._sockets[0].getsockname()[1]
        names = {ADDRESS, "localhost", _in_url(host)} if host else {ADDRESS, "localhost"}
        self.url = f"http://{ADDRESS}:{port}/#{token}"
        own = _outward(host) if everywhere else host
        self.readers_url = f"http://{_in_url(own)}:{port}/#{readers}" if host else ""
        hosts = frozenset(f"{name}:{port}" for name in names)
        api = Api(results, project, Runs(project, limits), token, readers)
        self._application = application(api, hosts, any_address=everywhere)

    def serve(self) -> None:
        """Answer until interrupted."""
        warm()
        config = uvicorn.Config(
            self._application, log_level="error", access_log=False, timeout_graceful_shutdown=1, proxy_headers=False
        )  # fmt: skip
        uvicorn.Server(config).run(sockets=self._sockets)


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        what = f"port {port} of {host} is not available: {error.strerror or error}"
        remedy = "give another one, or 0 for any free port" if host == ADDRESS else "give an address of this machine"
        raise UsageError(what, place="--port" if host == ADDRESS else "--host", remedy=remedy) from None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        remedy = "give an address of this machine, or 0.0.0.0 for all of them"
        raise UsageError(f'"{host}" is not an address', place="--host", remedy=remedy) from None


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _outward(host: str) -> str:
    """The address of this machine by which it reaches others, or its own one where it reaches nobody; nothing is sent."""
    family, other = (socket.AF_INET6, "2001:db8::1") if ":" in host else (socket.AF_INET, "192.0.2.1")
    with socket.socket(family, socket.SOCK_DGRAM) as asking, suppress(OSError):
        asking.connect((other, 9))
        return str(asking.getsockname()[0])
    return "::1" if ":" in host else ADDRESS


def application(api: Api, hosts: frozenset[str], *, any_address: bool = False) -> ASGIApp:
    """The explorer that `api` answers for, for requests to one of `hosts` (with their port) that have one of its tokens.

    With `any_address` requests to this machine by any address are answered, too: an address cannot be made to mean another machine.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await api.runs.close()

    page = [
        Route("/pages/{key}/{kind}/{ident}", api.page),
        Mount("/", StaticFiles(directory=Path(str(files(__package__))) / _BUILT, html=True)),
    ]
    handlers: Any = {WarpsightError: _refused}
    routes = [*api_routes(api), *page]
    return Guard(Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers), hosts, api, any_address)


def api_routes(api: Api) -> list[Route]:
    """What can be asked of `api`. A route is the owner's, unless it is one of those that only read."""
    for_readers = {api.start, api.versions, api.version, api.accesses, api.report, api.changes, api.found, api.found_page}
    every: list[tuple[str, str, _Answering]] = [
        ("POST", "/api/runs", api.ask),
        ("DELETE", "/api/runs/{run}", api.cancel),
        ("GET", "/api/runs/{run}/events", api.events),
        ("POST", "/api/runs/{run}/designs", api.designs),
        ("GET", "/api/gpus/{gpu}/keys", api.keys),
        ("GET", "/api/gpus/{gpu}/settings", api.settings),
        ("GET", "/api/start", api.start),
        ("GET", "/api/versions", api.versions),
        ("GET", "/api/versions/{number:int}", api.version),
        ("GET", "/api/versions/{number:int}/accesses/{line:int}", api.accesses),
        ("GET", "/api/versions/{number:int}/report", api.report),
        ("GET", "/api/changes/{before:int}/{after:int}", api.changes),
        ("GET", "/api/results", api.found),
        ("GET", "/api/results/{idents}", api.found_page),
    ]
    return [
        Route(path, answering if answering in for_readers else _for_owner(answering), methods=[method])
        for method, path, answering in every
    ]


class Guard:
    """In front of the application: whose requests are answered, how long they may be, and the headers of all answers.

    The name of the host keeps out pages of other sites whose names resolve to this machine; the origin and the token, which no
    other site knows and no cookie carries, keep out requests that other sites send. The owner's token is good on this machine
    alone; with the token for readers a request reaches only the routes that are named as readable (`api_routes`).
    """

    def __init__(self, inner: ASGIApp, hosts: frozenset[str], api: Api, any_address: bool) -> None:
        self._inner, self._hosts, self._api, self._any_address = inner, hosts, api, any_address

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

        request = Request(scope)
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        is_owner = _same(given, self._api.token) and _is_local(request)
        refusal = self._refusal(request, is_owner or (bool(self._api.readers) and _same(given, self._api.readers)))
        answering: ASGIApp = self._inner if refusal is None else refusal
        await answering({**scope, _IS_OWNER: is_owner}, receive, send_with_headers)

    def _refusal(self, request: Request, is_known: bool) -> Response | None:
        host, origin = request.headers.get("host", "").lower(), request.headers.get("origin")
        if host not in self._hosts and not (self._any_address and _is_address(host.rpartition(":")[0])):
            return _error(403, "requests to other hosts are refused")
        if origin is not None and origin.lower() != f"http://{host}":
            return _error(403, "requests of other origins are refused")
        if request.url.path.startswith(_API) and not is_known:
            return _error(401, "the token is missing or wrong: open the URL that `warpsight serve` has printed")
        return None


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def _is_local(request: Request) -> bool:
    """Whether a request comes from this machine."""
    host = request.client.host if request.client is not None else ""
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _for_owner(answering: _Answering) -> _Answering:
    """The same for the owner alone."""

    async def answer(request: Request) -> Response:
        if not request.scope[_IS_OWNER]:
            return _error(403, "this address is for reading: only the owner, on the machine of the server, runs kernels")
        return await answering(request)

    return answer


def _error(status: int, what: str) -> JSONResponse:
    return JSONResponse({"error": error_document(UsageError(what))}, status)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, WarpsightError)
    return JSONResponse({"error": error_document(error)}, 422)


class Api:
    """What the page asks for: about the results and the versions of a folder, and what is running. `token` lets in the owner,
    `readers` those who may only read; "": nobody.
    """

    def __init__(self, results: Results, project: Project, runs: Runs, token: str, readers: str = "") -> None:
        self.results, self.project, self.runs, self.token, self.readers = results, project, runs, token, readers

    def path_of(self, kind: str, ident: str) -> str:
        """The path of a report that a frame shows. A frame sends no token: its path has a key that follows from it."""
        return f"pages/{self._key(f'{kind}/{ident}')}/{kind}/{ident}"

    def _key(self, name: str) -> str:
        return hmac.new(self.token.encode(), name.encode(), "sha256").hexdigest()[:32]

    async def start(self, request: Request) -> Response:
        """What a page needs to begin: GPUs, models, examples, the colours of components as in reports, and whether it only reads:
        then it has the name of the folder, not where it lies.
        """
        is_owner, folder = request.scope[_IS_OWNER], self.project.folder.resolve()
        known = [{"name": each.name, "title": each.title, "question": each.question.to_json()} for each in examples()]
        return JSONResponse(
            {"version": __version__, "project": str(folder if is_owner else folder.name), "reading": not is_owner,
             "models": model_names(), "examples": known,
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
        question = self.project.question(number)
        document = await asyncio.to_thread(self._made, number, lambda document: shown(document, question.file))
        return JSONResponse({"question": question.to_json(), "document": document})

    async def accesses(self, request: Request) -> Response:
        """The memory instructions of a line of a version as HTML, to be shown in the page."""
        number, line = request.path_params["number"], request.path_params["line"]
        file = self.project.question(number).file
        html = await asyncio.to_thread(self._made, number, lambda document: accesses(document, file, line))
        return HTMLResponse(html)

    def _made(self, number: int, make: Callable[[dict[str, Any]], Any]) -> Any:
        """What is made of the document of a version. Raises FormatError where it is not report data."""
        try:
            return make(self.project.document(number))
        except DAMAGE as error:
            what = f"is not report data ({type(error).__name__}: {error})"
            remedy = "predict it again, or remove the folder of the version"
            raise FormatError(what, place=f"version {number}", remedy=remedy) from error

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
