"""The base of every manifest type: camelCase outside, snake_case inside, frozen, strict about typos."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Manifest(BaseModel):
    """A piece of a KServe manifest. An unknown field is an error, never ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, populate_by_name=True, strict=True
    )


class Metadata(Manifest):
    """Kubernetes object metadata, the part that is used here."""

    name: str
    namespace: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
