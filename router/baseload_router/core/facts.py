"""What a request says that routing depends on.

The body is decoded once, and only the fields that matter here; the original bytes go on upstream. A
field of an unexpected type is not this module's business: the predictor's own message about it is
better, and a body that is JSON but not OpenAI's (KServe's predict protocols) has no such fields at all.
"""

from dataclasses import dataclass
from typing import Any

import msgspec


class Part(msgspec.Struct, frozen=True):
    """One part of a message with several; only text counts here."""

    text: str | None = None


class Message(msgspec.Struct, frozen=True):
    """One chat message."""

    role: str = ""
    content: str | list[Part] | None = None


class OpenAIRequest(msgspec.Struct, frozen=True):
    """The fields of a completion or chat completion request that routing reads."""

    model: str = ""
    messages: list[Message] = []
    prompt: str | list[Any] | None = None
    stream: bool | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """A request's body: ``text`` is the whole JSON document, ``request`` its OpenAI fields."""

    text: str
    request: OpenAIRequest


_decode = msgspec.json.Decoder(OpenAIRequest).decode
_validate = msgspec.json.Decoder().decode
_NOT_OPENAI = OpenAIRequest()


def read_facts(body: bytes) -> Facts | None:
    """The facts of a body; None when it is not JSON in UTF-8."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    try:
        return Facts(text, _decode(text))
    except msgspec.ValidationError:
        return Facts(text, _NOT_OPENAI) if _is_json(text) else None
    except msgspec.DecodeError:
        return None


def prompt_of(request: OpenAIRequest) -> str:
    """What the user asks: the text of all user messages, or the prompt of a plain completion.

    System and assistant messages are left out: the first is the same for every request of an application, the
    second is the model's own.
    """
    texts = [_text(message.content) for message in request.messages if message.role == "user"]
    if isinstance(request.prompt, str):
        texts.append(request.prompt)
    elif request.prompt:
        texts.extend(part for part in request.prompt if isinstance(part, str))
    return "\n".join(texts)


def _text(content: str | list[Part] | None) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.text)


def _is_json(text: str) -> bool:
    try:
        _validate(text)
    except msgspec.DecodeError:
        return False
    return True
