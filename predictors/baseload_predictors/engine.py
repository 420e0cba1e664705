"""vLLM's engine and its OpenAI serving, started from a folder with weights.

vLLM is imported inside the functions: the import takes seconds, and the restore of the weights runs
beside it.
"""

import asyncio
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from baseload_predictors.errors import StartError
from baseload_predictors.settings import PredictorSettings
from baseload_predictors.timeline import Timeline

if TYPE_CHECKING:
    from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
    from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion
    from vllm.v1.engine.async_llm import AsyncLLM


@dataclass(frozen=True, slots=True)
class Engine:
    """A running engine with the OpenAI handlers in front of it."""

    client: "AsyncLLM"
    chat: "OpenAIServingChat"
    completion: "OpenAIServingCompletion"

    @property
    def alive(self) -> bool:
        return not self.client.errored

    def shutdown(self) -> None:
        self.client.shutdown()


def engine_flags(settings: PredictorSettings, folder: Path) -> list[str]:
    """The settings as flags of ``vllm serve``, so that vLLM's own parser checks them."""
    flags = [
        f"--model={folder}",
        f"--dtype={settings.dtype}",
        f"--max-num-seqs={settings.max_num_seqs}",
        f"--gpu-memory-utilization={settings.gpu_memory_utilization}",
        f"--tensor-parallel-size={settings.tensor_parallel_size}",
        "--disable-uvicorn-access-log",
    ]
    if settings.max_model_len is not None:
        flags.append(f"--max-model-len={settings.max_model_len}")
    if settings.enforce_eager:
        flags.append("--enforce-eager")
    if settings.tensor_parallel_size == 1:
        # One worker lives in the engine's process: one more process would import torch and vLLM once more.
        # By its full name, since vLLM turns the short one, uni, into mp on CPU to set OpenMP up there.
        flags.append("--distributed-executor-backend=vllm.v1.executor.uniproc_executor.UniProcExecutor")
    return [*flags, "--served-model-name", *settings.names]


async def start_engine(settings: PredictorSettings, folder: Path, timeline: Timeline) -> Engine:
    """Load the weights of ``folder`` and generate one token, so that the first user waits for nothing.

    Raises StartError when vLLM refuses the settings or the weights.
    """
    args = _parse(engine_flags(settings, folder))
    with timeline.phase("load"):
        client = await asyncio.to_thread(_build_client, args)
    try:
        engine = await _serve(client, args)
        with timeline.phase("warm-up"):
            await _answer_once(engine, settings.model_name)
    except BaseException:
        client.shutdown()
        raise
    return engine


def _parse(flags: list[str]) -> Namespace:
    from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args  # noqa: PLC0415
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415

    args = Namespace()
    make_arg_parser(FlexibleArgumentParser()).parse_args(flags, args)
    validate_parsed_serve_args(args)
    return args


def _build_client(args: Namespace) -> "AsyncLLM":
    from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: PLC0415
    from vllm.v1.engine.async_llm import AsyncLLM  # noqa: PLC0415

    try:
        return AsyncLLM.from_engine_args(AsyncEngineArgs.from_cli_args(args))
    except (ValueError, RuntimeError, OSError) as error:
        raise StartError(f"vLLM cannot load {args.model}: {error}") from error


async def _serve(client: "AsyncLLM", args: Namespace) -> Engine:
    from starlette.datastructures import State  # noqa: PLC0415
    from vllm.entrypoints.openai.api_server import init_app_state  # noqa: PLC0415

    state = State()
    await init_app_state(client, state, args, await client.get_supported_tasks())
    return Engine(client, state.openai_serving_chat, state.openai_serving_completion)


async def _answer_once(engine: Engine, name: str) -> None:
    """The whole way of a request: template, tokens, engine, reply."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest  # noqa: PLC0415
    from vllm.entrypoints.openai.engine.protocol import ErrorResponse  # noqa: PLC0415

    messages = [{"role": "user", "content": "Hello"}]
    request = ChatCompletionRequest.model_validate({"model": name, "messages": messages, "max_tokens": 1})
    reply = await engine.chat.create_chat_completion(request)
    if isinstance(reply, ErrorResponse):
        raise StartError(f"the engine does not answer: {reply.error.message}")
