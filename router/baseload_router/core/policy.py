"""The policy file: what an InferenceGraph cannot say. Every field has a default, since as KServe's
``router.image`` the router gets a graph and nothing else.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0)]
Bytes = Annotated[int, Field(ge=1024)]
Count = Annotated[int, Field(ge=1)]

KEYWORDS = ["analyze", "analyse", "reasoning", "code", "分析", "推理", "代码"]


class Section(BaseModel):
    """A piece of the policy. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ClassifierPolicy(Section):
    """When a request is for the large tier: by its prompt's length, in characters, or by a word in it."""

    min_large_chars: Count = 500
    keywords: list[Annotated[str, Field(min_length=1)]] = Field(default=KEYWORDS)


class Policy(Section):
    """Limits of the router. Times are in seconds, sizes in bytes.

    default_capacity: requests in flight at an endpoint that states no capacity.
    upstream_timeout_s: silence of an endpoint, before its answer and inside it.
    client_stall_s: how long a client may take in nothing of an answer that waits for it.
    cooldown_s: how long an endpoint is avoided after it could not be reached.
    forward_headers: of ``authorization`` and ``cookie``, those that go on to the endpoints.
    """

    classifier: ClassifierPolicy = Field(default=ClassifierPolicy())
    default_capacity: Count = 256
    connect_timeout_s: Seconds = 5.0
    upstream_timeout_s: Seconds = 120.0
    head_timeout_s: Seconds = 10.0
    body_timeout_s: Seconds = 60.0
    keepalive_idle_s: Seconds = 180.0
    client_stall_s: Seconds = 60.0
    cooldown_s: Seconds = 1.0
    max_head_bytes: Bytes = 64 * 1024
    max_body_bytes: Bytes = 8 * 1024 * 1024
    max_connections: Count = 4096
    forward_headers: list[str] = Field(default=[])
