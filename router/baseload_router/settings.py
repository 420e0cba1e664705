"""The router's settings, declared once: each is a command-line flag and an environment variable."""

from pathlib import Path
from typing import Self

from pydantic import AliasChoices, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class RouterSettings(BaseSettings):
    """Route requests through an InferenceGraph. Each flag is also a variable, BASELOAD_ROUTER_FLAG."""

    model_config = SettingsConfigDict(
        env_prefix="BASELOAD_ROUTER_",
        cli_prog_name="baseload_router",
        cli_kebab_case=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        extra="forbid",
        frozen=True,
    )

    graph: Path | None = Field(default=None, description="InferenceGraph manifest to serve")
    graph_json: str | None = Field(
        default=None, description="the graph's spec as JSON, as KServe's controller gives it"
    )
    policy: Path | None = Field(default=None, description="policy file (YAML): limits, classifier")
    endpoints: Path | None = Field(default=None, description="endpoints file (JSON) to follow")
    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8080, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    lame_duck_s: float = Field(
        default=0.0,
        ge=0,
        description="seconds to serve on after SIGTERM, not ready, until traffic has moved away",
    )
    grace_s: float = Field(
        default=30.0, ge=0, description="seconds that requests in flight have to finish after that"
    )
    propagate_headers: str = Field(
        default="",
        validation_alias=AliasChoices("propagate_headers", "PROPAGATE_HEADERS"),
        description="comma-separated regular expressions of private headers that go on upstream",
    )

    @model_validator(mode="after")
    def _one_graph(self) -> Self:
        if (self.graph is None) == (self.graph_json is None):
            raise ValueError("give either --graph FILE or --graph-json SPEC")
        return self
