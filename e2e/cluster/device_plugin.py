"""A device plugin of the tests' own: kubelet then really allocates GPUs that nobody has.

    python device_plugin.py --folder /var/lib/kubelet/device-plugins --state FOLDER --count 8

It speaks kubelet's device-plugin API as NVIDIA's plugin does: it announces its devices, follows
kubelet through restarts, and gives a container the ids of its devices in NVIDIA_VISIBLE_DEVICES.
``FOLDER/unhealthy`` names the devices that are broken now, one in each line; allocations are
appended to ``FOLDER/allocations``, a JSON list of ids in each line.
"""

# ruff: noqa: N802 - kubelet names the methods

import argparse
import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import grpc

sys.path.insert(0, str(Path(__file__).parent))
messages, services = grpc.protos_and_services("kube/device_plugin.proto")

_API_VERSION: Final = "v1beta1"
_POLL_S: Final = 0.2
_CALL_TIMEOUT_S: Final = 5.0
_IDS: Final = uuid.UUID("6f6d0f0c-9b1a-4f6e-8f0e-3b0a7d1c5e52")


def device_ids(count: int) -> list[str]:
    """Ids in the form of NVIDIA's, the same in every run."""
    return [f"GPU-{uuid.uuid5(_IDS, str(number))}" for number in range(count)]


class DevicePlugin(services.DevicePluginServicer):
    """Answers kubelet; whoever changes the devices' health calls ``announce``."""

    def __init__(self, ids: list[str], state: Path) -> None:
        self._ids = ids
        self._unhealthy = state / "unhealthy"
        self._allocations = state / "allocations"
        self._changed = asyncio.Condition()
        self._announced: frozenset[str] = frozenset()

    async def GetDevicePluginOptions(self, _request: Any, _context: Any) -> Any:
        return messages.DevicePluginOptions()

    async def ListAndWatch(self, _request: Any, _context: Any) -> AsyncIterator[Any]:
        """Send all devices now and after each change."""
        while True:
            unhealthy = self._announced
            yield messages.ListAndWatchResponse(
                devices=[_device(each, is_healthy=each not in unhealthy) for each in self._ids]
            )
            async with self._changed:
                while self._announced == unhealthy:
                    await self._changed.wait()

    async def Allocate(self, request: Any, _context: Any) -> Any:
        """Give each container the ids that kubelet chose for it."""
        answer = messages.AllocateResponse()
        for container in request.container_requests:
            ids = list(container.devices_ids)
            with self._allocations.open("a") as log:
                log.write(json.dumps(ids) + "\n")
            answer.container_responses.add(envs={"NVIDIA_VISIBLE_DEVICES": ",".join(ids)})
        return answer

    async def announce(self) -> None:
        """Read which devices are broken and tell kubelet if that is news."""
        text = self._unhealthy.read_text() if self._unhealthy.exists() else ""
        unhealthy = frozenset(text.split())
        if unhealthy != self._announced:
            async with self._changed:
                self._announced = unhealthy
                self._changed.notify_all()


def _device(device_id: str, *, is_healthy: bool) -> Any:
    return messages.Device(ID=device_id, health="Healthy" if is_healthy else "Unhealthy")


async def serve(folder: Path, state: Path, resource: str, count: int) -> None:
    """Serve for ever; a new kubelet, known by its new socket, gets a new server."""
    while True:
        kubelet = await _wait_for_socket(folder / "kubelet.sock")
        plugin = DevicePlugin(device_ids(count), state)
        endpoint = f"{resource.replace('/', '-')}.sock"
        server = grpc.aio.server()
        services.add_DevicePluginServicer_to_server(plugin, server)
        (folder / endpoint).unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{folder / endpoint}")
        await server.start()
        try:
            await _register(folder / "kubelet.sock", endpoint, resource)
            print(f"registered {count} {resource}", flush=True)
            while _socket_identity(folder / "kubelet.sock") == kubelet:
                await plugin.announce()
                await asyncio.sleep(_POLL_S)
        except grpc.aio.AioRpcError as error:  # kubelet is on its way up or down
            print(f"kubelet does not answer: {error.details()}", flush=True)
            await asyncio.sleep(_POLL_S)
        finally:
            await server.stop(grace=None)


async def _register(socket: Path, endpoint: str, resource: str) -> None:
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        request = messages.RegisterRequest(
            version=_API_VERSION, endpoint=endpoint, resource_name=resource
        )
        await services.RegistrationStub(channel).Register(request, timeout=_CALL_TIMEOUT_S)


async def _wait_for_socket(socket: Path) -> tuple[int, int]:
    while (identity := _socket_identity(socket)) is None:  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(_POLL_S)
    return identity


def _socket_identity(socket: Path) -> tuple[int, int] | None:
    try:
        facts = socket.stat()
    except FileNotFoundError:
        return None
    return facts.st_ino, facts.st_ctime_ns


def main() -> None:
    """Read the flags and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--resource", default="nvidia.com/gpu")
    parser.add_argument("--count", type=int, default=8)
    flags = parser.parse_args()
    asyncio.run(serve(flags.folder, flags.state, flags.resource, flags.count))


if __name__ == "__main__":
    main()
