"""The endpoints file: which endpoints each service has now. Its writer replaces it as a whole, atomically."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _base_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"{url!r} is not http://HOST:PORT")
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username:
        raise ValueError(f"{url!r} has more than http://HOST:PORT")
    return url


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class EndpointEntry(_Strict):
    """One endpoint: where it listens, and how many requests it may serve at once (None: the policy's)."""

    url: Annotated[str, AfterValidator(_base_url)]
    capacity: Annotated[int, Field(ge=1)] | None = None


class ServiceEntry(_Strict):
    """The ready endpoints of a service; none means that it cannot serve now."""

    endpoints: list[EndpointEntry]


class EndpointList(_Strict):
    """The whole file, format version 1."""

    version: Literal[1]
    services: dict[str, ServiceEntry]
