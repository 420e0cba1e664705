"""Follows the endpoints file by polling: its writer replaces it, and a quarter of a second is soon enough."""

import asyncio
import logging
from pathlib import Path

from pydantic import ValidationError

from baseload_router.core.endpoint_list import EndpointList
from baseload_router.directory import Directory

INTERVAL_S = 0.25

_log = logging.getLogger(__name__)


class EndpointsWatch:
    """Keeps a Directory in step with a file. A bad file changes nothing and is reported once."""

    def __init__(self, path: Path, directory: Directory) -> None:
        self._path = path
        self._directory = directory
        self._seen: tuple[int, int, int] | None = None
        self._missing_reported = False

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            self.poll()
            await asyncio.sleep(INTERVAL_S)

    def poll(self) -> None:
        """Read the file if it has changed since the last look."""
        try:
            stat = self._path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen == self._seen:
                return
            self._seen = seen
            self._directory.update(EndpointList.model_validate_json(self._path.read_bytes()))
        except OSError as error:
            self._report_missing(error)
        except ValidationError as error:
            _log.error("endpoints file refused, the old one stays", extra=self._fields(_reasons(error)))
        else:
            self._missing_reported = False
            _log.info("endpoints file read", extra=self._fields(self._summary()))

    def _report_missing(self, error: OSError) -> None:
        self._seen = None
        if not self._missing_reported:
            self._missing_reported = True
            _log.warning("endpoints file cannot be read", extra=self._fields(str(error)))

    def _fields(self, detail: str) -> dict[str, object]:
        return {"fields": {"file": str(self._path), "detail": detail}}

    def _summary(self) -> str:
        known = [f"{service.name}={endpoint.name}" for service, endpoint in self._directory.endpoints()]
        return " ".join(known) or "no endpoints"


def _reasons(error: ValidationError) -> str:
    details = error.errors(include_url=False)
    return "; ".join(
        f"{'.'.join(map(str, detail['loc'])) or '(file)'}: {detail['msg']}" for detail in details
    )
