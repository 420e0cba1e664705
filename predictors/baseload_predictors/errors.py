"""What the predictor refuses, each with its HTTP status, OpenAI error type and whether a retry can help."""


class PredictorError(Exception):
    """Base of this package's errors. ``headers`` go out with the reply."""

    status = 500
    retryable = False
    type = "server_error"
    code: str | None = None

    def __init__(self, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.headers = headers or {}


class QueueFullError(PredictorError):
    status = 429
    retryable = True
    type = "rate_limit_error"
    code = "queue_full"

    def __init__(self, reason: str, retry_after: int) -> None:
        super().__init__(
            f"The model is at capacity: {reason}. Retry after {retry_after} s.",
            {"retry-after": str(retry_after)},
        )


class NotReadyError(PredictorError):
    status = 503
    retryable = True
    code = "not_ready"

    def __init__(self, reason: str) -> None:
        super().__init__(f"The model is not ready: {reason}.", {"retry-after": "5"})


class EngineRefusedError(PredictorError):
    """vLLM refused the request; its own status, type and message are passed on."""

    def __init__(self, message: str, status: int, type_: str, code: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.type = type_
        self.code = code


class ModelUnknownError(PredictorError):
    status = 404
    type = "invalid_request_error"
    code = "model_not_found"

    def __init__(self, reason: str, known: list[str]) -> None:
        super().__init__(f"{reason} Known here: {', '.join(known)}.")


class StartError(PredictorError):
    """The predictor cannot start: a wrong setting, no snapshot, an engine that does not come up."""


class EngineDiedError(PredictorError):
    """The engine process ended while the predictor served; only a new process helps."""
