"""What makes an OpenAI SDK client tell how its requests were served, shared by ``Client`` and
``AsyncClient``.

The SDK's seams that are used: ``_send_request`` (every HTTP request), ``_process_response`` (every reply),
``FinalRequestOptions.post_parser`` (every parsed object, raw and streaming replies included),
``_make_status_error`` and ``_make_sse_decoder``.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import openai
from openai._models import FinalRequestOptions
from openai._streaming import ServerSentEvent, SSEDecoder

from baseload_client.core.report import Resilience
from baseload_client.errors import (
    AllTargetsFailedError,
    BaseloadClientError,
    StreamTimeoutError,
    StreamTruncatedError,
)
from baseload_client.exchange import RESILIENCE_EXTENSION, TOTAL_EXTENSION


def resilience_of(answer: object) -> Resilience | None:
    """How the request behind ``answer`` was served, or None where this client was not involved.

    answer: what the SDK returned (a completion, a stream, a raw response), the error it raised, or an httpx2
    response. The same is at ``answer.resilience`` for objects and errors of this package's clients.
    """
    noted = getattr(answer, "__dict__", {}).get("resilience")
    if isinstance(noted, Resilience):
        return noted
    response = answer if isinstance(answer, httpx2.Response) else _response_of(answer)
    if response is not None:
        found = response.extensions.get(RESILIENCE_EXTENSION)
        return found if isinstance(found, Resilience) else None
    return resilience_of(answer.__cause__) if isinstance(answer, openai.APIConnectionError) else None


def _response_of(answer: object) -> httpx2.Response | None:
    names = ("http_response", "response", "_response")
    found = (getattr(answer, name, None) for name in names)
    return next((response for response in found if isinstance(response, httpx2.Response)), None)


def note(answer: object, response: httpx2.Response) -> None:
    """Puts ``resilience`` onto an object that takes attributes. Not a field: dumps of the object stay as
    they are."""
    resilience = resilience_of(response)
    if resilience is not None and hasattr(answer, "__dict__"):
        vars(answer)["resilience"] = resilience


def noting(options: FinalRequestOptions, response: httpx2.Response) -> FinalRequestOptions:
    """``options`` whose parsed result will carry ``resilience``. They are the SDK's copy for this request
    alone."""
    parse: object = options.post_parser
    inner: Callable[[Any], Any] = parse if callable(parse) else _as_it_is

    def post_parser(parsed: Any) -> Any:
        result = inner(parsed)
        note(result, response)
        return result

    options.post_parser = post_parser
    return options


def _as_it_is(parsed: Any) -> Any:
    return parsed


def set_total(request: httpx2.Request) -> None:
    """The SDK's ``timeout`` for a request is a limit for the whole call here, retries and fallbacks
    included."""
    asked = request.extensions.get("timeout", {}).get("read")
    if asked is not None:
        request.extensions[TOTAL_EXTENSION] = asked


def api_error(error: BaseloadClientError, request: httpx2.Request) -> openai.APIConnectionError:
    """The SDK's error class for ``error``, with the message that tells what happened instead of the SDK's
    fixed one."""
    if isinstance(error, httpx2.TimeoutException):
        raised: openai.APIConnectionError = openai.APITimeoutError(request)
        raised.message = str(error)
        raised.args = (str(error),)
    else:
        raised = openai.APIConnectionError(message=str(error), request=request)
    if isinstance(error, AllTargetsFailedError):
        vars(raised)["resilience"] = error.resilience
    return raised


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (StreamTimeoutError, StreamTruncatedError) as error:
        raise api_error(error, error.request) from error


class ExplainingDecoder(SSEDecoder):
    """The SDK's decoder; a stream that ends badly raises an SDK error that says how."""

    def iter_bytes(self, iterator: Iterator[bytes]) -> Iterator[ServerSentEvent]:
        with _explained():
            yield from super().iter_bytes(iterator)

    async def aiter_bytes(self, iterator: AsyncIterator[bytes]) -> AsyncIterator[ServerSentEvent]:
        with _explained():
            async for event in super().aiter_bytes(iterator):
                yield event
