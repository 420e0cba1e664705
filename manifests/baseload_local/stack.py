"""The local stack: object store, snapshots, predictors, router; started in that order, stopped in reverse."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from pydantic import SecretStr

from baseload_local.commands import LOOPBACK, replica_command, replica_env, router_command
from baseload_local.control import is_alive
from baseload_local.endpoints import EndpointsFile
from baseload_local.errors import AlreadyRunningError, LocalError
from baseload_local.inventory import Inventory
from baseload_local.object_store import (
    UNSIGNED_STATUS,
    endpoint_url,
    free_ports,
    remove_sockets,
    store_command,
)
from baseload_local.probes import cold_start, is_ready
from baseload_local.process import Command, free_port, kill_leftovers, require_free
from baseload_local.report import Report
from baseload_local.snapshots import ensure_snapshots
from baseload_local.state import DEFAULT_STATE, Credentials, StateFolder, write_json
from baseload_local.supervisor import Supervisor
from baseload_manifests.stack import ServiceSpec, Stack, load_stack
from baseload_router.loading import read_policy
from baseload_storage.errors import StorageError
from baseload_storage.settings import S3Settings

ROUTER_GRACE_S = 10.0
STORE_GRACE_S = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """manifests: a kustomize folder. state: where everything is kept. host, port: the router's address.

    policy: the router's policy file, if not the defaults.
    """

    manifests: Path
    state: Path = DEFAULT_STATE
    host: str = LOOPBACK
    port: int = 8080
    policy: Path | None = None


@dataclass(slots=True)
class Replica:
    """One predictor process; its port, and so ``url``, is new at each start."""

    name: str
    service: ServiceSpec
    url: str = ""

    def move(self) -> int:
        port = free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        return port


@dataclass(frozen=True, slots=True)
class Running:
    """What ``running_stack`` has started.

    cold_starts: seconds by phase, by replica. announce: tell ``up --detach`` that all is well.
    """

    url: str
    store_url: str
    state: Path
    cold_starts: dict[str, dict[str, float]]
    announce: Callable[[], None]


@asynccontextmanager
async def running_stack(options: LocalOptions, report: Report) -> AsyncIterator[Running]:
    """Everything up and answering inside the block, everything gone after it, errors and Ctrl-C included.

    Raises ManifestError, LocalError or StorageError, each with one message that says what to do.
    """
    with report.step(f"read the manifests of {options.manifests}"):
        manifests = await asyncio.to_thread(check_start, options, report)
    state = StateFolder.at(options.state)
    state.create()
    with state.locked():
        async with AsyncExitStack() as cleanup:
            cleanup.callback(state.forget_stack)
            try:
                running = await _Starter(options, manifests, state, report, cleanup).start()
            except (LocalError, StorageError) as error:
                report.note(f"failed: {error}")  # before the cleanup, which may take a while
                raise
            yield running


def check_start(options: LocalOptions, report: Report) -> Stack:
    """Everything that can be refused before anything is written or started; also ends what a crash left."""
    manifests = load_stack(options.manifests)
    read_policy(options.policy)
    _end_what_a_crash_left(StateFolder.at(options.state), report)
    require_free(options.host, options.port)
    return manifests


def _end_what_a_crash_left(state: StateFolder, report: Report) -> None:
    """Its router may still hold the port. Raises AlreadyRunningError where nothing has crashed."""
    stack = state.read_stack()
    if stack is None:
        return
    if is_alive(stack):
        raise AlreadyRunningError(state.root)
    with state.locked():
        killed = kill_leftovers(stack["processes"])
        state.forget_stack()
    report.note(f"the last stack did not stop cleanly; killed {len(killed)} processes that it left")


class _Starter:
    """Starts the parts in order and registers each one's end with ``cleanup``."""

    def __init__(
        self,
        options: LocalOptions,
        manifests: Stack,
        state: StateFolder,
        report: Report,
        cleanup: AsyncExitStack,
    ) -> None:
        self._options = options
        self._manifests = manifests
        self._state = state
        self._report = report
        self._cleanup = cleanup
        self._credentials = state.credentials()
        self._url = f"http://{options.host}:{options.port}"
        self._inventory = Inventory(state, self._url)

    async def start(self) -> Running:
        client = await self._cleanup.enter_async_context(httpx2.AsyncClient())
        store_url = await self._start_store(client)
        await self._ensure_snapshots(store_url)
        replicas, supervisors = self._replicas(store_url, client)
        with self._report.step(f"start {len(replicas)} predictors and wait until each answers"):
            cold_starts = await self._start_replicas(replicas, supervisors, client)
        await self._start_router(client)
        return Running(self._url, store_url, self._state.root, cold_starts, self._inventory.announce)

    async def _start_store(self, client: httpx2.AsyncClient) -> str:
        ports = free_ports()
        url = endpoint_url(ports)
        command = store_command(self._state.store, self._state.log("object-store"), self._credentials, ports)
        store = Supervisor(
            lambda: command,
            lambda: is_ready(client, url, UNSIGNED_STATUS),
            lambda: self._inventory.update(store, "object-store", url),
        )
        self._cleanup.callback(remove_sockets, ports)
        self._cleanup.push_async_callback(store.stop, STORE_GRACE_S)
        with self._report.step("start the object store (SeaweedFS)"):
            await store.start()
        self._keep(store)
        return url

    async def _ensure_snapshots(self, store_url: str) -> None:
        refs = [service.snapshot for service in self._manifests.services if service.snapshot]
        await ensure_snapshots(refs, store_settings(store_url, self._credentials), self._state, self._report)

    def _replicas(self, store_url: str, client: httpx2.AsyncClient) -> tuple[list[Replica], list[Supervisor]]:
        services = self._manifests.services
        endpoints = EndpointsFile(self._state.endpoints, services)
        replicas = [Replica(f"{each.name}-{n}", each) for each in services for n in range(each.replicas)]
        return replicas, [self._supervisor(each, store_url, endpoints, client) for each in replicas]

    def _supervisor(
        self, replica: Replica, store_url: str, endpoints: EndpointsFile, client: httpx2.AsyncClient
    ) -> Supervisor:
        env = replica_env(replica.service, store_url, self._credentials, self._state)

        def make() -> Command:
            return replica_command(replica.service, replica.name, replica.move(), env, self._state)

        def changed() -> None:
            self._inventory.update(supervisor, replica.name, replica.url)
            endpoints.set(replica.service.host, replica.name, replica.url if supervisor.ready else None)

        supervisor = Supervisor(
            make, lambda: is_ready(client, replica.url + replica.service.readiness_path), changed
        )
        return supervisor

    async def _start_replicas(
        self, replicas: list[Replica], supervisors: list[Supervisor], client: httpx2.AsyncClient
    ) -> dict[str, dict[str, float]]:
        graces = [each.service.termination_grace_period for each in replicas]
        self._cleanup.push_async_callback(_stop_all, list(zip(supervisors, graces, strict=True)))
        starts = [
            asyncio.create_task(self._start_replica(*pair, client))
            for pair in zip(replicas, supervisors, strict=True)
        ]
        try:
            return dict(await asyncio.gather(*starts))
        finally:
            await _cancel(starts)

    async def _start_replica(
        self, replica: Replica, supervisor: Supervisor, client: httpx2.AsyncClient
    ) -> tuple[str, dict[str, float]]:
        await supervisor.start()
        self._keep(supervisor)
        phases = await cold_start(client, replica.url)
        times = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in phases.items())
        self._report.note(f"{replica.name} answers; seconds: {times}")
        return replica.name, phases

    def _keep(self, part: Supervisor) -> None:
        """From its first readiness on, a part is started again whenever it ends."""
        keeper = asyncio.create_task(part.keep())
        keeper.add_done_callback(_tell_failure)
        self._cleanup.push_async_callback(_cancel, [keeper])

    async def _start_router(self, client: httpx2.AsyncClient) -> None:
        write_json(self._state.graph, self._manifests.graph_document)
        command = router_command(self._state, self._options.host, self._options.port, self._options.policy)
        router = Supervisor(
            lambda: command,
            lambda: is_ready(client, f"{self._url}/readyz"),
            lambda: self._inventory.update(router, "router", self._url),
        )
        self._cleanup.push_async_callback(router.stop, ROUTER_GRACE_S)
        with self._report.step(f"start the router on {self._url}"):
            await router.start()
        self._keep(router)


def store_settings(store_url: str, credentials: Credentials) -> S3Settings:
    """Settings for the embedded store, whatever the user's own environment says."""
    return S3Settings(
        endpoint_url=store_url,
        region="us-east-1",
        access_key=SecretStr(credentials.access_key),
        secret_key=SecretStr(credentials.secret_key),
    )


async def _stop_all(supervisors: list[tuple[Supervisor, float]]) -> None:
    """All at once; the first error is raised once each has had its turn."""
    results = await asyncio.gather(*(each.stop(grace) for each, grace in supervisors), return_exceptions=True)
    for error in (result for result in results if isinstance(result, BaseException)):
        raise error


def _tell_failure(keeper: "asyncio.Task[None]") -> None:
    if not keeper.cancelled() and keeper.exception() is not None:
        log.error("a part is no longer supervised", exc_info=keeper.exception())


async def _cancel(tasks: "list[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
