"""Errors of the router. Each one is an HTTP answer, in OpenAI's shape or in KServe's."""

import json
from typing import ClassVar


class RouterError(Exception):
    """A request that cannot be answered as asked.

    status: HTTP status of the answer. retryable: whether the same request may succeed a little later.
    kind and code: OpenAI's ``error.type`` and ``error.code``. retry_after: seconds to wait, or None.
    """

    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    kind: ClassVar[str] = "server_error"
    code: ClassVar[str] = "internal_error"
    retry_after: ClassVar[int | None] = None

    def __init__(self, message: str, cause: str | None = None) -> None:
        """cause: what KServe's router says of the same case, where its clients may rely on the words."""
        super().__init__(message)
        self._cause = cause or message

    def openai_body(self) -> bytes:
        """The error as the OpenAI SDK expects it; also what an SSE error event carries."""
        error = {"message": str(self), "type": self.kind, "code": self.code, "param": None}
        return json.dumps({"error": error}, ensure_ascii=False).encode()

    def kserve_body(self) -> bytes:
        """The error as KServe's own router words it."""
        return json.dumps({"error": "Failed to process request", "cause": self._cause}).encode()


class MalformedRequestError(RouterError):
    """The bytes are not an HTTP request that may be passed on."""

    status = 400
    kind = "invalid_request_error"
    code = "malformed_request"


class InvalidBodyError(RouterError):
    """The body is not JSON."""

    status = 400
    kind = "invalid_request_error"
    code = "invalid_json"


class NoRouteError(RouterError):
    """No step of the graph takes the request."""

    status = 404
    kind = "invalid_request_error"
    code = "no_route"


class UnknownPathError(RouterError):
    """There is nothing at the path."""

    status = 404
    kind = "invalid_request_error"
    code = "unknown_path"


class MethodNotAllowedError(RouterError):
    """The path takes another method."""

    status = 405
    kind = "invalid_request_error"
    code = "method_not_allowed"


class RequestTimeoutError(RouterError):
    """The client sent its request too slowly."""

    status = 408
    kind = "invalid_request_error"
    code = "request_timeout"


class BodyTooLargeError(RouterError):
    """The body is over the limit."""

    status = 413
    kind = "invalid_request_error"
    code = "body_too_large"


class HeadTooLargeError(RouterError):
    """The request line and headers are over the limit."""

    status = 431
    kind = "invalid_request_error"
    code = "head_too_large"


class AtCapacityError(RouterError):
    """Every ready endpoint has as many requests as it may have."""

    status = 429
    retryable = True
    kind = "rate_limit_error"
    code = "at_capacity"
    retry_after = 1


class UpstreamFailedError(RouterError):
    """The endpoint could not be reached, or broke off before the end of its answer."""

    status = 502
    retryable = True
    code = "upstream_failed"


class NoEndpointError(RouterError):
    """The service has no ready endpoint."""

    status = 503
    retryable = True
    code = "no_ready_endpoint"
    retry_after = 1


class NotReadyError(RouterError):
    """The router itself is not ready, or is full."""

    status = 503
    retryable = True
    code = "not_ready"
    retry_after = 1


class UpstreamTimeoutError(RouterError):
    """The endpoint kept silent for too long."""

    status = 504
    retryable = True
    code = "upstream_timeout"
