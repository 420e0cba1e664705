"""``baseload ask``: one question through the client, with the tier that answered and the times."""

import time
from dataclasses import dataclass
from typing import Annotated

import typer
from openai import Stream
from openai.types.chat import ChatCompletionChunk

from baseload_client import Client, resilience_of

DEFAULT_URL = "http://127.0.0.1:8080"
QUESTION = "What is the capital of France?"


@dataclass(frozen=True, slots=True)
class Answer:
    """ttft: seconds to the first token. tokens: of the answer."""

    text: str
    tier: str
    model: str
    ttft: float
    seconds: float
    tokens: int

    @property
    def tokens_per_second(self) -> float:
        """Decoding alone: the first token's time is the prefill's."""
        return (self.tokens - 1) / max(self.seconds - self.ttft, 1e-9)


def ask(
    question: Annotated[str, typer.Argument(help="What to ask.")] = QUESTION,
    model: Annotated[str, typer.Option(help="auto, small, large, or a model's name.")] = "auto",
    url: Annotated[str, typer.Option(help="The router's address.")] = DEFAULT_URL,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, tokens.")] = 200,
) -> None:
    """Ask one question."""
    print_answer(question, put_question(url, question, model, max_tokens))


def put_question(url: str, question: str, model: str = "auto", max_tokens: int = 200) -> Answer:
    """Stream one chat answer at temperature 0. Raises what the OpenAI SDK raises."""
    with Client(base_url=f"{url}/v1", api_key="none") as client:
        begin = time.monotonic()
        stream = client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": question}],
            temperature=0,
            max_tokens=max_tokens,
            stream=True,
            stream_options={"include_usage": True},
        )
        return _collect(stream, begin)


def _collect(stream: Stream[ChatCompletionChunk], begin: float) -> Answer:
    pieces: list[str] = []
    first, tokens, model = 0.0, 0, ""
    for chunk in stream:
        model = chunk.model
        tokens = chunk.usage.completion_tokens if chunk.usage else tokens
        piece = chunk.choices[0].delta.content if chunk.choices else None
        if piece:
            first = first or time.monotonic()
            pieces.append(piece)
    end = time.monotonic()
    told = resilience_of(stream)
    return Answer(
        text="".join(pieces),
        tier=told.tier_served if told else "",
        model=model,
        ttft=(first or end) - begin,
        seconds=end - begin,
        tokens=tokens,
    )


def print_answer(question: str, answer: Answer) -> None:
    typer.echo(f"question  {question}")
    typer.echo(f"answer    {answer.text.strip()}")
    typer.echo(f"served by tier {answer.tier} (model {answer.model})")
    typer.echo(
        f"times     first token {answer.ttft * 1000:.0f} ms, {answer.tokens} tokens, "
        f"{answer.tokens_per_second:.1f} tokens/s"
    )
