"""The router's own metrics, in a registry of their own.

Labels take their values from the graph (tier, version), from the endpoints known now, and from HTTP
statuses, so their number is bounded whatever clients send.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from baseload_router.directory import Directory

TTFT_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Metrics:
    """Counts of one router."""

    def __init__(self, directory: Directory) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "baseload_router_requests",
            "Requests answered, by HTTP status; 499 when the client left first.",
            ("tier", "version", "code"),
            registry=self._registry,
        )
        self._ttft = Histogram(
            "baseload_router_time_to_first_token_seconds",
            "From the whole request to the first byte of the answer's body.",
            ("tier", "version"),
            buckets=TTFT_BUCKETS_S,
            registry=self._registry,
        )
        self._retries = Counter(
            "baseload_router_retries",
            "Requests sent to a second endpoint, or again over a new connection.",
            ("tier", "version", "kind"),
            registry=self._registry,
        )
        self._aborts = Counter(
            "baseload_router_aborts",
            "Answers broken off, by the side that did it.",
            ("tier", "version", "side"),
            registry=self._registry,
        )
        self._registry.register(InFlight(directory))

    def answered(self, tier: str, version: str, code: int) -> None:
        self._requests.labels(tier, version, code).inc()

    def first_token(self, tier: str, version: str, seconds: float) -> None:
        self._ttft.labels(tier, version).observe(seconds)

    def retried(self, tier: str, version: str, kind: str) -> None:
        self._retries.labels(tier, version, kind).inc()

    def aborted(self, tier: str, version: str, side: str) -> None:
        self._aborts.labels(tier, version, side).inc()

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class InFlight(Collector):
    """Reads the load of each endpoint when it is asked for, so that a request pays nothing for it."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def describe(self) -> Iterable[Metric]:
        return [self._family()]

    def collect(self) -> Iterator[Metric]:
        family = self._family()
        for service, endpoint in self._directory.endpoints():
            family.add_metric([service.name, endpoint.name], endpoint.in_flight)
        yield family

    def _family(self) -> GaugeMetricFamily:
        name = "baseload_router_in_flight_requests"
        return GaugeMetricFamily(
            name, "Requests that an endpoint serves now.", labels=["service", "endpoint"]
        )
