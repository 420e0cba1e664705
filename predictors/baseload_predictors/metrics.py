"""The predictor's own series. They join vLLM's in the default registry, which KServe serves at /metrics."""

from collections.abc import Callable

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

QUEUE_WAIT_BUCKETS = (0.001, 0.005, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class PredictorMetrics:
    """One instance a process."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self.cold_start = Gauge(
            "baseload_cold_start_seconds", "Seconds of the last start, by phase", ["phase"], registry=registry
        )
        self.refused = Counter(
            "baseload_requests_refused", "Requests refused before the engine", ["reason"], registry=registry
        )
        self.queue_wait = Histogram(
            "baseload_queue_wait_seconds",
            "Time a request waited in front of the engine",
            buckets=QUEUE_WAIT_BUCKETS,
            registry=registry,
        )
        self.batch_size = Histogram(
            "baseload_batch_size",
            "Requests that left the queue together",
            ["reason"],
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        self._waiting = Gauge(
            "baseload_requests_waiting", "Requests that wait in front of the engine", registry=registry
        )
        self._running = Gauge("baseload_requests_running", "Requests in the engine", registry=registry)

    def watch(self, waiting: Callable[[], float], running: Callable[[], float]) -> None:
        """Read both gauges from these at every scrape."""
        self._waiting.set_function(waiting)
        self._running.set_function(running)
