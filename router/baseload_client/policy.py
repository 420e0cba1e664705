"""The client's settings, each declared once: in code, by environment or in a YAML file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, cast

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from baseload_client.core.attempts import Target
from baseload_client.core.breaker import BreakerConfig
from baseload_client.core.budget import BudgetConfig
from baseload_client.errors import PolicyError


class Fallback(BaseModel):
    """Where to go instead: another ``model``, at its own ``base_url`` or (None) at the one that was called.

    The request's headers go there as they are, the API key included.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(min_length=1)
    base_url: str | None = Field(default=None, pattern=r"^https?://[^/]+")


def _named(value: Any) -> Any:
    return {"model": value} if isinstance(value, str) else value


Chain = tuple[Annotated[Fallback, BeforeValidator(_named)], ...]


class ClientPolicy(BaseSettings):
    """How hard the client tries. Durations are seconds.

    Settings not given in code are taken from the environment: prefix ``BASELOAD_CLIENT_``, parts joined by
    two underscores, collections as JSON (``BASELOAD_CLIENT_BREAKER__OPEN_S=10``). Raises pydantic's
    ValidationError.
    """

    model_config = SettingsConfigDict(
        env_prefix="BASELOAD_CLIENT_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
    )

    total_deadline_s: PositiveFloat = 120.0
    """The whole call, its attempts, waits and the body included. A request's own ``timeout`` replaces it."""
    attempt_timeout_s: PositiveFloat = 60.0
    """One attempt, up to its complete reply or a stream's first event; also a stream's longest silence."""
    connect_timeout_s: PositiveFloat = 2.0
    max_attempts: PositiveInt = 2
    """Attempts a target, the first one included."""
    backoff_initial_s: PositiveFloat = 0.2
    """The first wait is random between 0 and this; the range doubles with each further failure."""
    backoff_max_s: PositiveFloat = 5.0
    """The longest wait for the same target, ``Retry-After`` included, while another target is there."""
    breaker: BreakerConfig = BreakerConfig()
    budget: BudgetConfig = BudgetConfig()
    fallbacks: dict[str, Chain] = {
        "small": (Fallback(model="large"),),
        "large": (Fallback(model="small"),),
        "auto": (Fallback(model="large"), Fallback(model="small")),
    }
    """For each ``model`` of a request, the targets to try after it, in order."""
    tiers: tuple[str, ...] = ("small", "large")
    """Lowest first; a reply from a lower tier than the requested one is marked as downgraded."""
    max_connections: PositiveInt = 1000
    max_keepalive_connections: PositiveInt = 100

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """The policy of a YAML file; the environment goes before the file. Raises PolicyError."""
        settings = _over(_read(Path(path)), EnvSettingsSource(cls)())
        try:
            return cls(**settings)
        except ValidationError as error:
            raise PolicyError(_explained(path, error)) from error

    def chain(self, endpoint: str, model: str) -> Sequence[Target]:
        """The targets for a request for ``model`` that was made to ``endpoint`` (base URL), best first."""
        targets = [Target(endpoint, model)]
        for fallback in self.fallbacks.get(model, ()):
            base_url = fallback.base_url or endpoint
            targets.append(Target(base_url.rstrip("/"), fallback.model))
        return list(dict.fromkeys(targets))


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``below`` with the values of ``above`` in their place, down through nested mappings."""
    merged = dict(below)
    for name, value in above.items():
        under = merged.get(name)
        nested = isinstance(under, Mapping) and isinstance(value, Mapping)
        merged[name] = _over(cast(Mapping[str, Any], under), value) if nested else value
    return merged


def _read(path: Path) -> dict[str, Any]:
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path} cannot be read: {error}; check the path and its rights") from error
    except yaml.YAMLError as error:
        raise PolicyError(f"{path} is not YAML: {' '.join(str(error).split())}; mend the syntax") from error
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise PolicyError(f"{path} is not a mapping of settings; write lines such as 'max_attempts: 2'")
    return {str(name): value for name, value in settings.items()}


def _explained(path: str | Path, error: ValidationError) -> str:
    return "\n".join(f"{path}: {_fault(detail['loc'], detail['msg'])}" for detail in error.errors())


def _fault(location: tuple[int | str, ...], message: str) -> str:
    field = ".".join(str(part) for part in location)
    if message == "Extra inputs are not permitted":
        return f"{field}: unknown setting; known are {', '.join(ClientPolicy.model_fields)}"
    return f"{field}: {message[0].lower()}{message[1:]}; change the value"
