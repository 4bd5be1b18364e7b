"""The tests' own device plugin, against a stand-in for kubelet."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import grpc
import pytest
from device_plugin import device_ids, messages, services

PLUGIN = Path(__file__).with_name("device_plugin.py")
DEADLINE_S = 30


class Kubelet(services.RegistrationServicer):
    """Takes registrations on its socket and then calls the plugin, as kubelet does."""

    def __init__(self, folder):
        self.folder = folder
        self.registrations = asyncio.Queue()
        self._server = None

    async def start(self):
        socket = self.folder / "kubelet.sock"
        socket.unlink(missing_ok=True)
        self._server = grpc.aio.server()
        services.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{socket}")
        await self._server.start()

    async def stop(self):
        await self._server.stop(grace=None)

    async def Register(self, request, _context):  # noqa: N802 - kubelet's name
        self.registrations.put_nowait(request)
        return messages.Empty()

    async def registration(self):
        return await asyncio.wait_for(self.registrations.get(), DEADLINE_S)


@pytest.fixture
async def kubelet(tmp_path):
    started = Kubelet(tmp_path)
    await started.start()
    yield started
    await started.stop()


@pytest.fixture
async def plugin(kubelet, tmp_path):
    """The plugin's process, and a stub that calls it."""
    flags = ("--folder", str(tmp_path), "--state", str(tmp_path), "--count", "3")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PLUGIN), *flags, stdout=asyncio.subprocess.DEVNULL
    )
    registration = await kubelet.registration()
    assert registration.resource_name == "nvidia.com/gpu"
    assert registration.version == "v1beta1"
    async with grpc.aio.insecure_channel(f"unix:{tmp_path / registration.endpoint}") as channel:
        yield services.DevicePluginStub(channel)
    process.send_signal(signal.SIGKILL)
    await process.wait()


async def health(stream):
    answer = await asyncio.wait_for(stream.read(), DEADLINE_S)
    return {device.ID: device.health for device in answer.devices}


async def test_devices_are_announced_and_so_is_their_health(plugin, tmp_path):
    one, two, three = device_ids(3)
    stream = plugin.ListAndWatch(messages.Empty())
    assert await health(stream) == dict.fromkeys([one, two, three], "Healthy")

    (tmp_path / "unhealthy").write_text(f"{two}\n")
    assert await health(stream) == {one: "Healthy", two: "Unhealthy", three: "Healthy"}
    (tmp_path / "unhealthy").write_text("")
    assert set((await health(stream)).values()) == {"Healthy"}


async def test_a_container_learns_its_devices(plugin, tmp_path):
    one, two, three = device_ids(3)
    request = messages.AllocateRequest()
    request.container_requests.add(devices_ids=[one, three])
    request.container_requests.add(devices_ids=[two])

    answer = await plugin.Allocate(request, timeout=DEADLINE_S)

    variables = [
        container.envs["NVIDIA_VISIBLE_DEVICES"] for container in answer.container_responses
    ]
    assert variables == [f"{one},{three}", two]
    allocations = (tmp_path / "allocations").read_text().splitlines()
    assert [json.loads(line) for line in allocations] == [[one, three], [two]]


@pytest.mark.usefixtures("plugin")
async def test_a_new_kubelet_is_followed(kubelet):
    await kubelet.stop()
    await kubelet.start()

    assert (await kubelet.registration()).endpoint == "nvidia.com-gpu.sock"
