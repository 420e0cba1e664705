"""Every setting of the predictor, declared once: flags and environment derive from it."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class PredictorSettings(BaseSettings):
    """LLM predictor for KServe: vLLM behind a batching layer, its weights restored from a snapshot."""

    model_config = SettingsConfigDict(
        env_prefix="BASELOAD_PREDICTOR_",
        cli_prog_name="python -m baseload_predictors",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        extra="forbid",
    )

    model_name: str = Field("model", description="name in KServe's paths and in OpenAI's `model` field")
    served_model_name: list[str] = Field([], description="further names that are answered, e.g. auto")
    snapshot: str | None = Field(None, description="weights to restore at start: s3://bucket/name[:tag]")
    model_dir: Path | None = Field(
        None, description="folder for the restored model; without --snapshot, a folder that holds one"
    )
    host: str = Field("0.0.0.0", description="address to listen on")  # noqa: S104 - a pod's port is for its Service
    http_port: int = Field(8080, ge=1, le=65535, description="port to listen on")

    max_model_len: PositiveInt | None = Field(None, description="longest prompt plus answer, tokens")
    max_num_seqs: PositiveInt = Field(16, description="sequences that the engine runs together")
    dtype: str = Field("auto", description="vLLM's dtype: auto, bfloat16, float16, float32")
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1, description="share of GPU memory for vLLM")
    tensor_parallel_size: PositiveInt = Field(1, description="GPUs a replica")
    enforce_eager: bool = Field(False, description="skip graph capture and compilation")

    max_batch_size: PositiveInt = Field(8, description="requests that leave the queue together")
    max_wait: NonNegative = Field(0.03, description="longest hold for grouping while a slot is free, seconds")
    max_queue: PositiveInt = Field(64, description="requests that may wait; one more gets 429")

    lame_duck: NonNegative = Field(5, description="seconds between SIGTERM and the end of listening")
    drain_timeout: NonNegative = Field(30, description="seconds that running requests have after that")

    @model_validator(mode="after")
    def _some_model(self) -> "PredictorSettings":
        if self.snapshot is None and self.model_dir is None:
            raise ValueError("give --snapshot s3://bucket/name[:tag], or --model-dir with a model in it")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """All names that are answered, the first the model's own."""
        return tuple(dict.fromkeys((self.model_name, *self.served_model_name)))
