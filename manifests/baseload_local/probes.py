"""Questions to a part over HTTP: does it answer, and how did it start."""

import httpx2
from prometheus_client.parser import text_string_to_metric_families

PROBE_TIMEOUT_S = 2.0
METRICS_TIMEOUT_S = 30.0


async def is_ready(client: httpx2.AsyncClient, url: str, status: int = 200) -> bool:
    """Whether ``GET url`` answers with ``status``. Anything else, silence included, is no."""
    try:
        return (await client.get(url, timeout=PROBE_TIMEOUT_S)).status_code == status
    except httpx2.TransportError:
        return False


async def cold_start(client: httpx2.AsyncClient, base_url: str) -> dict[str, float]:
    """Seconds of a predictor's last start, by phase, from its metrics; empty if it does not tell."""
    try:
        reply = await client.get(f"{base_url}/metrics", timeout=METRICS_TIMEOUT_S)
    except httpx2.TransportError:
        return {}
    return {
        sample.labels["phase"]: sample.value
        for family in text_string_to_metric_families(reply.text)
        if family.name == "baseload_cold_start_seconds"
        for sample in family.samples
    }
