"""The model that KServe serves: OpenAI's protocol, answered by vLLM behind the gate."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from fastapi import Request
from kserve.protocol.rest.openai import ChatCompletionRequest, CompletionRequest, OpenAIGenerativeModel
from kserve.protocol.rest.openai.types import ChatCompletion, Completion
from vllm.entrypoints.openai.engine.protocol import ErrorResponse
from vllm.entrypoints.serve import create_error_response

from baseload_predictors.engine import Engine
from baseload_predictors.errors import EngineRefusedError, NotReadyError
from baseload_predictors.gate import Gate, Ticket

log = logging.getLogger(__name__)

Handler = Callable[[Any, Request | None], Awaitable[Any]]
Context = dict[str, Any] | None


class BaseloadModel(OpenAIGenerativeModel):
    """Ready only while the engine answers; every request passes the gate."""

    def __init__(self, name: str, gate: Gate) -> None:
        super().__init__(name)
        self.ready = False
        self._gate = gate
        self._engine: Engine | None = None

    def attach(self, engine: Engine) -> None:
        """From here on requests are answered."""
        self._engine = engine
        self.ready = True

    def load(self) -> bool:
        """KServe calls this for a model that is not ready, and its default would then claim that it is."""
        return self.ready

    async def healthy(self) -> bool:
        return self._engine is not None and self._engine.alive

    async def create_chat_completion(
        self, request: ChatCompletionRequest, raw_request: Request | None = None, context: Context = None
    ) -> AsyncGenerator[str, None] | ChatCompletion:
        return await self._answer(self._ready_engine().chat.create_chat_completion, request, raw_request)

    async def create_completion(
        self, request: CompletionRequest, raw_request: Request | None = None, context: Context = None
    ) -> AsyncGenerator[str, None] | Completion:
        return await self._answer(self._ready_engine().completion.create_completion, request, raw_request)

    def _ready_engine(self) -> Engine:
        if self._engine is None:
            raise NotReadyError("its weights are still loading")
        return self._engine

    async def _answer(self, handler: Handler, request: Any, raw_request: Request | None) -> Any:
        ticket = await self._gate.enter()
        try:
            reply = await _refusals_raised(handler, request, raw_request)
        except BaseException:
            ticket.leave()
            raise
        if isinstance(reply, AsyncGenerator):
            return _stream(reply, ticket)
        ticket.leave()
        return reply


async def _stream(chunks: AsyncGenerator[str, None], ticket: Ticket) -> AsyncGenerator[str, None]:
    try:
        async for chunk in chunks:
            yield chunk
    finally:
        try:
            await chunks.aclose()  # vLLM aborts what the client no longer reads; then the slot is free
        finally:
            ticket.leave()


async def _refusals_raised(handler: Handler, request: Any, raw_request: Request | None) -> Any:
    """vLLM says no in two ways, an ErrorResponse or an exception: both become EngineRefusedError."""
    try:
        reply = await handler(request, raw_request)
    except Exception as error:
        reply = create_error_response(error)
        if int(reply.error.code) >= 500:
            log.exception("request failed in the engine")
    if isinstance(reply, ErrorResponse):
        raise _refusal(reply)
    return reply


def _refusal(reply: ErrorResponse) -> EngineRefusedError:
    error = reply.error
    code = "context_length_exceeded" if "maximum context length" in error.message else None
    return EngineRefusedError(error.message, int(error.code), error.type, code)
