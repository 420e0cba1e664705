"""From YAML files to typed manifests. Every failure is a ManifestError that names file, field and fix."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from baseload_manifests.core.problem import Problem
from baseload_manifests.errors import ManifestError

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document. ``source`` is ``file:line`` of its first line, as error messages show it."""

    source: str
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.body.get("kind", ""))

    @property
    def name(self) -> str:
        metadata = self.body.get("metadata")
        return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def read_documents(path: Path) -> list[Document]:
    """Every document of a YAML (or JSON) file, empty ones left out. Raises ManifestError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(
            str(path), "(file)", f"cannot be read: {error}", "check the path and its rights"
        ) from error
    return list(_documents(path, text))


def _documents(path: Path, text: str) -> Iterator[Document]:
    loader = yaml.SafeLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            source = f"{path}:{node.start_mark.line + 1}"
            body = loader.construct_document(node)
            if body is None:
                continue
            if not isinstance(body, dict):
                raise _refused(source, "(document)", "is not a mapping", "start it with apiVersion and kind")
            yield Document(source, body)
    except yaml.YAMLError as error:
        raise _refused(str(path), "(syntax)", " ".join(str(error).split()), "mend the YAML") from error
    finally:
        loader.dispose()


def parse(model: type[T], document: Document) -> T:
    """``document`` as a ``model``. Raises ManifestError with one Problem for each field that is wrong."""
    try:
        return model.model_validate(document.body)
    except ValidationError as error:
        raise ManifestError(list(_problems(model, document, error))) from error


def _problems(model: type[BaseModel], document: Document, error: ValidationError) -> Iterator[Problem]:
    for detail in error.errors(include_url=False):
        location = detail["loc"]
        yield Problem(
            document.source,
            _field(location),
            _reason(detail["type"], detail["msg"]),
            _fix(model, location, detail),
        )


def _field(location: tuple[int | str, ...]) -> str:
    field = ""
    for part in location:
        field += f"[{part}]" if isinstance(part, int) else f".{part}"
    return field.lstrip(".") or "(document)"


def _reason(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "unknown field"
    return message[0].lower() + message[1:]


def _fix(model: type[BaseModel], location: tuple[int | str, ...], detail: Mapping[str, Any]) -> str:
    if detail["type"] == "missing":
        return f"add {location[-1]}"
    if detail["type"] != "extra_forbidden":
        return f"change the value {detail['input']!r}"
    known = _siblings(model, location)
    near = get_close_matches(str(location[-1]), known, n=1)
    if near:
        return f"write {near[0]}"
    return f"remove it (known here: {', '.join(sorted(known))})" if known else "remove it"


def _siblings(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The field names known beside the last part of ``location``."""
    schema: dict[str, Any] = model.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    for part in location[:-1]:
        schema = _step(_resolved(schema, definitions), part)
    return list(_resolved(schema, definitions).get("properties", {}))


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    for option in schema.get("anyOf", ()):
        if option.get("type") != "null":
            return _resolved(option, definitions)
    reference = schema.get("$ref")
    return definitions[reference.rsplit("/", 1)[1]] if reference else schema


def _step(schema: dict[str, Any], part: int | str) -> dict[str, Any]:
    if isinstance(part, int):
        return dict(schema.get("items", {}))
    if part in schema.get("properties", {}):
        return dict(schema["properties"][part])
    extra = schema.get("additionalProperties")
    return dict(extra) if isinstance(extra, dict) else {}


def _refused(file: str, field: str, reason: str, fix: str) -> ManifestError:
    return ManifestError([Problem(file, field, reason, fix)])
