"""OpenAI's reply bodies, built from a request and a list of tokens."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

CREATED = 1_700_000_000
"""Unix seconds in every reply: fixed, so that two runs of a test give the same bytes."""


def completion(path: str, model: str, tokens: Sequence[str], finish_reason: str | None) -> dict[str, Any]:
    """The body of a non-streaming completion or chat completion."""
    text = "".join(tokens)
    content = {"message": {"role": "assistant", "content": text}} if _is_chat(path) else {"text": text}
    choice = {"index": 0, "finish_reason": finish_reason, "logprobs": None, **content}
    kind = "chat.completion" if _is_chat(path) else "text_completion"
    return {**_head(path, model, kind), "choices": [choice], "usage": usage(len(tokens))}


def events(path: str, model: str, tokens: Sequence[str]) -> Iterator[str]:
    """The ``data:`` payloads of the tokens of a stream, one a token."""
    for position, token in enumerate(tokens):
        yield _chunk(path, model, _delta(path, token, first=position == 0), None)


def last_events(
    path: str, model: str, finish_reason: str | None, done: bool, used: int | None
) -> Iterator[str]:
    """The payloads that end a stream: finish reason, usage where asked (``used`` tokens), ``[DONE]``."""
    if finish_reason is not None:
        yield _chunk(path, model, {"delta": {}} if _is_chat(path) else {"text": ""}, finish_reason)
    if used is not None:
        yield json.dumps({**_head(path, model, _chunk_kind(path)), "choices": [], "usage": usage(used)})
    if done:
        yield "[DONE]"


def models(names: Sequence[str]) -> dict[str, Any]:
    """The body of ``GET /v1/models``."""
    listed = [{"id": name, "object": "model", "created": CREATED, "owned_by": "fake"} for name in names]
    return {"object": "list", "data": listed}


def error(status: int) -> dict[str, Any]:
    """OpenAI's error body."""
    message = f"scripted status {status}"
    return {"error": {"message": message, "type": "scripted_error", "param": None, "code": status}}


def usage(completion_tokens: int) -> dict[str, int]:
    prompt_tokens = 1
    total = prompt_tokens + completion_tokens
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": total,
    }


def _is_chat(path: str) -> bool:
    return path.endswith("/chat/completions")


def _chunk_kind(path: str) -> str:
    return "chat.completion.chunk" if _is_chat(path) else "text_completion"


def _head(path: str, model: str, kind: str) -> dict[str, Any]:
    prefix = "chatcmpl" if _is_chat(path) else "cmpl"
    return {"id": f"{prefix}-fake", "object": kind, "created": CREATED, "model": model}


def _delta(path: str, token: str, *, first: bool) -> dict[str, Any]:
    if not _is_chat(path):
        return {"text": token}
    return {"delta": {"role": "assistant", "content": token} if first else {"content": token}}


def _chunk(path: str, model: str, content: dict[str, Any], finish_reason: str | None) -> str:
    choice = {"index": 0, "finish_reason": finish_reason, "logprobs": None, **content}
    return json.dumps({**_head(path, model, _chunk_kind(path)), "choices": [choice]})
