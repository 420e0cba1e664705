"""What the router does with a request: by path to an answer of its own, or through the graph."""

import itertools
import secrets
from collections.abc import Callable
from random import Random

from baseload_router.core.classifier import Classifier, RuleClassifier
from baseload_router.core.conditions import Inquiry
from baseload_router.core.facts import read_facts
from baseload_router.core.policy import Policy
from baseload_router.core.target import openai_endpoint, upstream_path
from baseload_router.core.walk import CompiledGraph, NoMatch, walk
from baseload_router.directory import Directory
from baseload_router.errors import (
    InvalidBodyError,
    MethodNotAllowedError,
    NoRouteError,
    NotReadyError,
    RouterError,
    UnknownPathError,
)
from baseload_router.exchange import Exchange, ExchangeParts, Order
from baseload_router.http_request import Request
from baseload_router.metrics import Metrics
from baseload_router.models import ModelsListing
from baseload_router.server import ClientConnection, Responder

_MODELS = (b"/v1/models", b"/openai/v1/models")
_TEXT = b"content-type: text/plain; version=0.0.4; charset=utf-8\r\n"
_JSON = b"content-type: application/json\r\n"
_MAX_REQUEST_ID_BYTES = 128


class Router:
    """One graph, served."""

    def __init__(
        self,
        graph: CompiledGraph,
        policy: Policy,
        directory: Directory,
        *,
        withheld: frozenset[bytes],
        clock: Callable[[], float],
        rng: Random,
    ) -> None:
        rules = policy.classifier
        self.metrics = Metrics(directory)
        self.draining = False
        self._graph = graph
        self._directory = directory
        self._classifier: Classifier = RuleClassifier(rules.min_large_chars, rules.keywords)
        self._rng = rng
        self._parts = ExchangeParts(policy, self.metrics, rng, clock, withheld)
        self._bases = [target for target in graph.targets if target.is_openai_base]
        self._is_openai_only = len(self._bases) == len(graph.targets)
        self._id_prefix = secrets.token_hex(6).encode()
        self._ids = itertools.count(1)

    def handle(self, client: ClientConnection, request: Request) -> Responder | None:
        """Answer a request, now or through the responder returned."""
        path = request.path.partition(b"?")[0]
        if path == b"/readyz":
            self._readiness(client)
        elif path == b"/metrics" and request.method == b"GET":
            client.reply(200, _TEXT, self.metrics.exposition())
        elif path in _MODELS and request.method == b"GET" and self._bases:
            return self._list_models(client)
        else:
            return self._route(client, request)
        return None

    def error_body(self, error: RouterError) -> bytes:
        """An error in the words of the graph's clients: OpenAI's if it has an OpenAI base, else KServe's."""
        return error.openai_body() if self._bases else error.kserve_body()

    def _readiness(self, client: ClientConnection) -> None:
        """Ready while any service can serve: one tier that is down must not take the others along."""
        if self.draining:
            client.reply_error(NotReadyError("the router is draining"))
        elif not any(self._directory.endpoints()):
            client.reply_error(NotReadyError("no service has a ready endpoint"))
        else:
            client.reply(200, _JSON, b'{"status":"ready"}')

    def _list_models(self, client: ClientConnection) -> Responder:
        listing = ModelsListing(client, self._directory, self._bases)
        listing.start()
        return listing

    def _route(self, client: ClientConnection, request: Request) -> Responder | None:
        request_id = self._request_id(request)
        order = self._order(request, request_id)
        if isinstance(order, RouterError):
            self.metrics.answered("", "", order.status)
            allow = b"allow: POST\r\n" if isinstance(order, MethodNotAllowedError) else b""
            client.reply_error(order, b"%bx-request-id: %b\r\n" % (allow, request_id))
            return None
        exchange = Exchange(self._parts, client, order)
        exchange.start()
        return exchange

    def _order(self, request: Request, request_id: bytes) -> Order | RouterError:
        facts = read_facts(request.body)
        if self._bases:
            endpoint = openai_endpoint(request.path)
            if endpoint is None and self._is_openai_only:
                return UnknownPathError(f"nothing at {_shown(request.path)}; OpenAI endpoints are under /v1/")
            if endpoint is not None and request.method != b"POST":
                return MethodNotAllowedError(f"{_shown(request.path)} takes POST")
            if endpoint is not None and facts is None:
                return InvalidBodyError("the request's body is not valid JSON")
        inquiry = Inquiry(facts, self._classifier)
        route = walk(self._graph, inquiry, self._rng)
        if isinstance(route, NoMatch):
            model = facts.request.model if facts else ""
            return NoRouteError(f"no step of node {route.node} takes model {model!r}", cause=route.reason)
        path = upstream_path(route.target, request.path)
        if path is None:
            return UnknownPathError(f"nothing at {_shown(request.path)} for {'/'.join(route.path)}")
        return Order(request, request_id, route, self._directory.service(route.target), path)

    def _request_id(self, request: Request) -> bytes:
        given = request.header(b"x-request-id")
        if given and len(given) <= _MAX_REQUEST_ID_BYTES and given.isascii():
            return given
        return b"%b-%d" % (self._id_prefix, next(self._ids))


def _shown(path: bytes) -> str:
    return path[:200].decode(errors="replace")
