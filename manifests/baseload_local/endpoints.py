"""The endpoints file: which replicas are ready, for the router. The local stand-in for EndpointSlices."""

from pathlib import Path

from baseload_local.state import write_json
from baseload_manifests.stack import ServiceSpec


class EndpointsFile:
    """Rewrites the file in one step at each change. Services without a ready replica stay listed, empty."""

    def __init__(self, path: Path, services: tuple[ServiceSpec, ...]) -> None:
        self._path = path
        self._capacity = {service.host: service.capacity for service in services}
        self._urls: dict[str, dict[str, str]] = {service.host: {} for service in services}
        self._write()

    def set(self, host: str, replica: str, url: str | None) -> None:
        """``url`` where ``replica`` is ready; None when it is not."""
        before = dict(self._urls[host])
        if url is None:
            self._urls[host].pop(replica, None)
        else:
            self._urls[host][replica] = url
        if self._urls[host] != before:
            self._write()

    def _write(self) -> None:
        services = {
            host: {"endpoints": [{"url": url, "capacity": self._capacity[host]} for url in urls.values()]}
            for host, urls in self._urls.items()
        }
        write_json(self._path, {"version": 1, "services": services})
