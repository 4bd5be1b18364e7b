"""Certificates of the connection to the scheduler service are renewed while calls are under way."""

import asyncio

import pytest
from kube.keys import Authority

from justitia.client import TlsFiles
from justitia_operator.scheduler import SchedulerLink
from justitia_scheduler.admin_servicer import AdminServicer
from justitia_scheduler.server import GrpcServer, credentials
from justitia_scheduler.service import SchedulerService
from justitia_scheduler.sqlite_store import SqliteStore

POOL = "default"


class Gate:
    """Holds DescribePool up when shut, and notes who calls it."""

    def __init__(self):
        self.callers = []
        self.is_reached = asyncio.Event()
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def pass_through(self, context):
        self.callers += [name.decode() for name in context.auth_context()["x509_common_name"]]
        self.is_reached.set()
        await self.is_open.wait()


@pytest.fixture
def gate(monkeypatch):
    gate, real = Gate(), AdminServicer.DescribePool

    async def describe(servicer, request, context):
        await gate.pass_through(context)
        return await real(servicer, request, context)

    monkeypatch.setattr(AdminServicer, "DescribePool", describe)
    return gate


class Files:
    """TLS files of both sides, as a Secret's volume shows them."""

    def __init__(self, folder):
        self.folder, self.num_issues = folder, 0
        self.server = (folder / "server.crt", folder / "server.key")
        self.client = TlsFiles(
            ca=folder / "ca.crt", cert=folder / "client.crt", key=folder / "client.key"
        )
        self.renew()

    def renew(self):
        """Replace all of them by those of a new authority; the client is called client-N."""
        self.num_issues += 1
        authority = Authority(self.folder / str(self.num_issues), name=f"ca-{self.num_issues}")
        server = authority.pair(common_name="server", hosts=["127.0.0.1"])
        client = authority.pair(common_name=f"client-{self.num_issues}", hosts=["client"])
        written = [authority.certificate_path.read_bytes(), *server, *client]
        paths = [self.client.ca, *self.server, self.client.cert, self.client.key]
        for path, content in zip(paths, written, strict=True):
            partial = path.with_suffix(".partial")
            partial.write_bytes(content)
            partial.replace(path)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture
async def link(files, gate):
    """A link over mTLS to a real service."""
    del gate  # set before the service takes its methods
    service = SchedulerService(SqliteStore(None))
    await service.start()
    server = GrpcServer(service)
    tls = credentials(*files.server, files.client.ca)
    port = await server.start("127.0.0.1:0", tls)
    link = SchedulerLink(f"127.0.0.1:{port}", files.client, now_s=lambda: 0.0)
    yield link
    await link.close()
    await server.drain(0)
    await service.stop()


async def test_the_next_call_shows_the_renewed_certificate_to_the_renewed_service(
    link, files, gate
):
    for _ in range(2):
        await link.describe(POOL)
        await link.describe(POOL)
        files.renew()

    assert gate.callers == ["client-1", "client-1", "client-2", "client-2"]


async def test_a_call_under_way_is_answered_over_the_former_connection(link, files, gate):
    gate.is_open.clear()
    slow = asyncio.create_task(link.describe(POOL))
    await gate.is_reached.wait()
    files.renew()

    await link.load()

    gate.is_open.set()
    # Cancelled with its connection, it would have ended whoever waits: a worker of the operator.
    assert not (await slow).is_shadow


async def test_former_connections_end_with_the_link(link, files, gate):
    gate.is_open.clear()
    slow = asyncio.create_task(link.describe(POOL))
    await gate.is_reached.wait()
    files.renew()
    await link.load()

    await link.close()

    await asyncio.wait([slow], timeout=5)
    assert slow.cancelled()
    gate.is_open.set()
