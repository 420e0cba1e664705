"""OpenAI SDK clients that keep answering while parts of the upstream do not."""

from typing import Any

import httpx2
import openai
from openai._models import FinalRequestOptions

from baseload_client import sdk
from baseload_client.errors import AllTargetsFailedError
from baseload_client.policy import ClientPolicy
from baseload_client.transport import AsyncResilientTransport, ResilientTransport

DEFAULT_BASE_URL = "http://127.0.0.1:8080/v1"


def _refuse_sdk_retries(max_retries: int) -> None:
    if max_retries != 0:
        raise ValueError(
            f"max_retries={max_retries} would retry on top of this client's own retries; "
            "leave it out and set ClientPolicy(max_attempts=...)"
        )


class Client(openai.OpenAI):
    """``openai.OpenAI`` with retries, circuit breakers and fallbacks under it.

    base_url: the router, up to ``/v1``. policy: by default from the environment. timeout: seconds for a whole
    call, by default the policy's ``total_deadline_s``. transport: a ResilientTransport to use instead of a
    new one of ``policy``. http_client: used as it is, then neither policy nor transport applies. Everything
    else is the SDK's.
    """

    def __init__(
        self,
        *,
        base_url: str | httpx2.URL = DEFAULT_BASE_URL,
        api_key: Any = "unused",
        policy: ClientPolicy | None = None,
        transport: ResilientTransport | None = None,
        http_client: httpx2.Client | None = None,
        max_retries: int = 0,
        **options: Any,
    ) -> None:
        _refuse_sdk_retries(max_retries)
        if http_client is None:
            transport = transport or ResilientTransport(base_url=str(base_url), policy=policy)
            options.setdefault("timeout", transport.policy.total_deadline_s)
            http_client = openai.DefaultHttpxClient(transport=transport, timeout=options["timeout"])
        super().__init__(
            base_url=base_url, api_key=api_key, http_client=http_client, max_retries=0, **options
        )

    def _send_request(self, request: httpx2.Request, *, stream: bool, **kwargs: Any) -> httpx2.Response:
        sdk.set_total(request)
        try:
            return super()._send_request(request, stream=stream, **kwargs)
        except AllTargetsFailedError as error:
            raise sdk.api_error(error, request) from error

    def _process_response(
        self, *, options: FinalRequestOptions, response: httpx2.Response, **kwargs: Any
    ) -> Any:
        noting = sdk.noting(options, response)
        return super()._process_response(options=noting, response=response, **kwargs)

    def _make_status_error(
        self, err_msg: str, *, body: object, response: httpx2.Response
    ) -> openai.APIStatusError:
        error = super()._make_status_error(err_msg, body=body, response=response)
        sdk.note(error, response)
        return error

    def _make_sse_decoder(self) -> sdk.ExplainingDecoder:
        return sdk.ExplainingDecoder()


class AsyncClient(openai.AsyncOpenAI):
    """``openai.AsyncOpenAI`` with retries, circuit breakers and fallbacks under it; see ``Client``."""

    def __init__(
        self,
        *,
        base_url: str | httpx2.URL = DEFAULT_BASE_URL,
        api_key: Any = "unused",
        policy: ClientPolicy | None = None,
        transport: AsyncResilientTransport | None = None,
        http_client: httpx2.AsyncClient | None = None,
        max_retries: int = 0,
        **options: Any,
    ) -> None:
        _refuse_sdk_retries(max_retries)
        if http_client is None:
            transport = transport or AsyncResilientTransport(base_url=str(base_url), policy=policy)
            options.setdefault("timeout", transport.policy.total_deadline_s)
            http_client = openai.DefaultAsyncHttpxClient(transport=transport, timeout=options["timeout"])
        super().__init__(
            base_url=base_url, api_key=api_key, http_client=http_client, max_retries=0, **options
        )

    async def _send_request(self, request: httpx2.Request, *, stream: bool, **kwargs: Any) -> httpx2.Response:
        sdk.set_total(request)
        try:
            return await super()._send_request(request, stream=stream, **kwargs)
        except AllTargetsFailedError as error:
            raise sdk.api_error(error, request) from error

    async def _process_response(
        self, *, options: FinalRequestOptions, response: httpx2.Response, **kwargs: Any
    ) -> Any:
        noting = sdk.noting(options, response)
        return await super()._process_response(options=noting, response=response, **kwargs)

    def _make_status_error(
        self, err_msg: str, *, body: object, response: httpx2.Response
    ) -> openai.APIStatusError:
        error = super()._make_status_error(err_msg, body=body, response=response)
        sdk.note(error, response)
        return error

    def _make_sse_decoder(self) -> sdk.ExplainingDecoder:
        return sdk.ExplainingDecoder()
