"""Where a step's serviceUrl leads, and under which path a request goes on.

A URL that ends in ``/openai/v1`` is a base: the OpenAI endpoint that the client asked for is called under it.
Any other URL is KServe's contract: it is called as it stands, whatever the client's path was.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

_BASE = "/openai/v1"
_PREFIXES = (b"/v1/", b"/openai/v1/")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """A service as a step names it. ``path`` has the query and is ready for a request line."""

    url: str
    scheme: str
    host: str
    port: int
    path: bytes
    is_openai_base: bool

    @property
    def service_names(self) -> tuple[str, str]:
        """The names to look the service up by, most exact first: the host, and its first label."""
        return self.host, self.host.partition(".")[0]


def target_of(url: str) -> Target:
    """A serviceUrl that has passed the graph rules, taken apart."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/") if parts.path.rstrip("/").endswith(_BASE) else parts.path or "/"
    is_base = path.endswith(_BASE) and not parts.query
    full = f"{path}?{parts.query}" if parts.query else path
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    return Target(url, parts.scheme, parts.hostname or "", port, full.encode(), is_base)


def openai_endpoint(path: bytes) -> bytes | None:
    """What follows ``/v1/`` or ``/openai/v1/`` in a request path, query and all; None for any other path.

    A path with dot segments is no OpenAI endpoint: an endpoint that resolves them would serve what the base
    does not cover.
    """
    for prefix in _PREFIXES:
        if path.startswith(prefix):
            rest = path[len(prefix) :]
            return None if _leaves_base(rest) else rest
    return None


def _leaves_base(rest: bytes) -> bool:
    path = rest.partition(b"?")[0]
    segments = path.lower().replace(b"%2e", b".").split(b"/")
    return not path or b".." in segments or b"." in segments or b"" in segments or b"#" in rest


def upstream_path(target: Target, request_path: bytes) -> bytes | None:
    """The path to call for a request; None when the target has nothing at it."""
    if not target.is_openai_base:
        return target.path
    endpoint = openai_endpoint(request_path)
    return None if endpoint is None else b"%b/%b" % (target.path, endpoint)
