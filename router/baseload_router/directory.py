"""Which endpoints each service of the graph has now."""

from collections.abc import Iterator, Sequence

from baseload_router.core.endpoint_list import EndpointList, ServiceEntry
from baseload_router.core.target import Target
from baseload_router.pool import Endpoint


class Service:
    """A service's endpoints, by URL."""

    __slots__ = ("by_url", "endpoints", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.by_url: dict[str, Endpoint] = {}
        self.endpoints: Sequence[Endpoint] = ()

    def replace(self, capacities: dict[str, int]) -> None:
        """Have exactly these endpoints; those that stay keep their connections and load."""
        for url in self.by_url.keys() - capacities.keys():
            self.by_url.pop(url).retire()
        for url, capacity in capacities.items():
            self.by_url.setdefault(url, Endpoint(url, capacity)).capacity = capacity
        self.endpoints = tuple(self.by_url[url] for url in capacities)


class Directory:
    """Finds the service of a target. With no endpoints file, a serviceUrl's own host is the endpoint.

    is_file_used: whether an endpoints file is configured; until it has been read, nothing is known.
    """

    def __init__(self, targets: Sequence[Target], default_capacity: int, *, is_file_used: bool) -> None:
        self._targets = targets
        self._default_capacity = default_capacity
        self._services: dict[str, Service] = {}
        for target in targets:
            self._services.setdefault(_authority(target), Service(target.service_names[1]))
        if not is_file_used:
            self._set_all({})

    def service(self, target: Target) -> Service:
        """The service behind a target of the graph."""
        return self._services[_authority(target)]

    def update(self, listed: EndpointList) -> None:
        """Take over a new endpoints file."""
        self._set_all(listed.services)

    def endpoints(self) -> Iterator[tuple[Service, Endpoint]]:
        """Every endpoint known now."""
        for service in self._services.values():
            for endpoint in service.endpoints:
                yield service, endpoint

    def _set_all(self, listed: dict[str, ServiceEntry]) -> None:
        for target in self._targets:
            self.service(target).replace(self._capacities(target, listed))

    def _capacities(self, target: Target, listed: dict[str, ServiceEntry]) -> dict[str, int]:
        for name in target.service_names:
            if name in listed:
                found = listed[name].endpoints
                return {entry.url: entry.capacity or self._default_capacity for entry in found}
        return {f"{target.scheme}://{_authority(target)}": self._default_capacity}


def _authority(target: Target) -> str:
    host = f"[{target.host}]" if ":" in target.host else target.host
    return f"{host}:{target.port}"
