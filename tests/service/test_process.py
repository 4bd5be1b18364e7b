"""Settings, TLS, health, drain and the process itself (FK11, FK12, FS5)."""

import asyncio
import contextlib
import datetime as dt
import signal
import socket
import subprocess
import sys
from ipaddress import ip_address

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from justitia import client as clients
from justitia_scheduler.__main__ import main
from justitia_scheduler.server import GrpcServer, ListenError, credentials, serve_metrics
from justitia_scheduler.settings import SettingsError, read_settings

# -- settings --------------------------------------------------------------------------------------


def test_flags_win_over_variables(monkeypatch):
    monkeypatch.setenv("JUSTITIA_SCHEDULER_DRAIN_S", "7")
    monkeypatch.setenv("JUSTITIA_SCHEDULER_MAX_OPEN_RUNS", "5")
    settings = read_settings(["--drain-s", "9", "--clock", "capacity", "--pools", "a,b"])
    assert (settings.drain_s, settings.max_open_runs, settings.clock) == (9, 5, "capacity")
    assert settings.service_options().pools == ("a", "b", "default")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--drain-s", "-1"], "drain_s: .*greater than or equal to 0, got '-1'"),
        (["--drain-s", "nan"], "drain_s: .*, got 'nan'"),
        (["--clock", "sundial"], "clock: .*'delivered' or 'capacity', got 'sundial'"),
        (["--default-cost-kvtt", "0"], "default_cost_kvtt: .*, got '0'"),
        (["--tls-cert", "x"], "tls_cert and tls_key must be given together"),
        (["--tls-client-ca", "x"], "tls_client_ca needs tls_cert and tls_key"),
        (["--prediction-deadline-s", "11"], "prediction_deadline_s: .*, got '11'"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name_and_value(arguments, said):
    with pytest.raises(SettingsError, match=said):
        read_settings(arguments, {})


def test_unknown_flags_and_variables_are_refused():
    with pytest.raises(SettingsError, match="JUSTITIA_SCHEDULER_DRAIN"):
        read_settings([], {"JUSTITIA_SCHEDULER_DRAIN": "5"})
    with pytest.raises(SystemExit):
        read_settings(["--drain", "5"], {})


def test_variables_that_kubernetes_injects_for_a_service_are_not_ours():
    injected = {
        "JUSTITIA_SCHEDULER_PORT": "tcp://10.0.0.1:50051",
        "JUSTITIA_SCHEDULER_SERVICE_HOST": "10.0.0.1",
        "JUSTITIA_SCHEDULER_SERVICE_PORT": "50051",
        "JUSTITIA_SCHEDULER_SERVICE_PORT_GRPC": "50051",
        "JUSTITIA_SCHEDULER_PORT_50051_TCP_ADDR": "10.0.0.1",
        "JUSTITIA_SCHEDULER_METRICS_PORT_9095_TCP": "tcp://10.0.0.1:9095",
    }
    assert read_settings([], injected).listen_address == "127.0.0.1:50051"


def test_help_names_every_flag(capsys):
    with pytest.raises(SystemExit) as stop:
        read_settings(["--help"], {})
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for flag in (
        "--listen-address",
        "--journal-path",
        "--tls-client-ca",
        "--prediction-deadline-s",
    ):
        assert flag in text


# -- TLS -------------------------------------------------------------------------------------------


class Authority:
    """A certificate authority of one test."""

    def __init__(self, folder):
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.path = self._write("ca.pem", self._sign(self.name, self.key, is_ca=True))

    def pair(self, name):
        """Write a certificate and its key; returns their paths."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        cert = self._write(f"{name}.pem", self._sign(subject, key, is_ca=False))
        path = self.folder / f"{name}.key"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return cert, path

    def _sign(self, subject, key, *, is_ca):
        now = dt.datetime.now(dt.UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def _write(self, name, certificate):
        path = self.folder / name
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return path


@contextlib.asynccontextmanager
async def served(service, tls):
    server = GrpcServer(service)
    port = await server.start("127.0.0.1:0", tls)
    yield f"127.0.0.1:{port}"
    await server.drain(0)


async def test_with_tls_a_client_that_knows_the_authority_is_served(bench, tmp_path):
    authority = Authority(tmp_path)
    async with served(bench.service, credentials(*authority.pair("server"), None)) as address:
        tls = clients.TlsFiles(ca=authority.path)
        async with clients.connect_async(address, tls=tls) as client:
            assert (await client.start_run(run_id="r1")).run_id == "r1"
        async with clients.connect_async(address, timeout_s=5) as plain:
            with pytest.raises(clients.UnreachableError, match="if it wants encryption, name the"):
                await plain.start_run(run_id="r2")
    assert list(bench.pool.facts) == ["r1"]


async def test_with_mtls_a_client_needs_a_certificate_of_the_authority(bench, tmp_path):
    authority = Authority(tmp_path)
    (tmp_path / "strange").mkdir()
    stranger = Authority(tmp_path / "strange")
    tls = credentials(*authority.pair("server"), authority.path)
    async with served(bench.service, tls) as address:
        cert, key = authority.pair("client")
        good = clients.TlsFiles(ca=authority.path, cert=cert, key=key)
        async with clients.connect_async(address, tls=good) as client:
            await client.start_run(run_id="r1")
        strange_cert, strange_key = stranger.pair("client")
        for bad in (
            clients.TlsFiles(ca=authority.path),
            clients.TlsFiles(ca=authority.path, cert=strange_cert, key=strange_key),
        ):
            async with clients.connect_async(address, tls=bad, timeout_s=2) as client:
                with pytest.raises(clients.SchedulerError):
                    await client.start_run(run_id="r2")
    assert list(bench.pool.facts) == ["r1"]


async def test_probes_answer_without_a_certificate_where_mtls_is_on(bench, tmp_path):
    authority = Authority(tmp_path)
    server = GrpcServer(bench.service)
    await server.start("127.0.0.1:0", credentials(*authority.pair("server"), authority.path))
    port = await server.start_probes("127.0.0.1:0")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("liveness", "readiness"):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(clients.SchedulerError, match="Method not found"):
            async with clients.connect_async(f"127.0.0.1:{port}") as client:
                await client.start_run(run_id="r1")
        watch = stub.Watch(health_pb2.HealthCheckRequest(service="readiness"))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        drain = asyncio.create_task(server.drain(0))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        await drain


async def test_renewed_certificates_are_served_without_a_restart(bench, tmp_path):
    old = Authority(tmp_path)
    pair = old.pair("server")
    async with served(bench.service, credentials(*pair, old.path)) as address:
        await start_run(address, old, "r1")
        (tmp_path / "new").mkdir()
        new = Authority(tmp_path / "new")
        renewed = (new.path, *new.pair("server"))
        # While only half of the files are there, what was served is still.
        pair[0].write_bytes(renewed[1].read_bytes())
        await start_run(address, old, "r2")
        pair[1].write_bytes(renewed[2].read_bytes())
        old.path.write_bytes(renewed[0].read_bytes())
        await start_run(address, new, "r3")
    assert list(bench.pool.facts) == ["r1", "r2", "r3"]


async def start_run(address, authority, run_id):
    cert, key = authority.pair(f"client-{run_id}")
    tls = clients.TlsFiles(ca=authority.path, cert=cert, key=key)
    async with clients.connect_async(address, tls=tls, timeout_s=5) as client:
        await client.start_run(run_id=run_id)


async def test_a_kernel_without_ipv6_is_said_in_one_sentence(bench, monkeypatch):
    def without_ipv6(*_):
        raise OSError(97, "Address family not supported by protocol")

    server = GrpcServer(bench.service)
    monkeypatch.setattr("justitia_scheduler.server.socket.socket", without_ipv6)
    with pytest.raises(
        ListenError, match=r"listen_address: cannot listen on :::50051: Address fam"
    ):
        await server.start("[::]:50051")


def test_a_missing_tls_file_is_named(tmp_path):
    with pytest.raises(ListenError, match=r"no\.pem"):
        credentials(tmp_path / "no.pem", tmp_path / "no.pem", None)


# -- health, reflection, drain ---------------------------------------------------------------------


async def test_health_and_reflection_answer(bench):
    stub = health_pb2_grpc.HealthStub(bench.channel)
    for name in ("", "liveness", "readiness"):
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    reflection = reflection_pb2_grpc.ServerReflectionStub(bench.channel)
    call = reflection.ServerReflectionInfo(
        iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    )
    answer = await call.read()
    call.cancel()
    names = {service.name for service in answer.list_services_response.service}
    assert {"justitia.api.v1.RunService", "justitia.api.v1.EngineService"} <= names


async def test_a_drain_says_so_closes_streams_and_answers_what_waits(bench):
    engine = bench.engine()
    await engine.join()
    await bench.start("r1")
    await engine.report({"run_id": "r1", "num_running": 1})
    await bench.until(lambda: bench.pool.core.run("r1").num_running)
    watch = health_pb2_grpc.HealthStub(bench.channel).Watch(
        health_pb2.HealthCheckRequest(service="readiness")
    )
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    ending = asyncio.ensure_future(bench.end("r1"))
    await bench.until(lambda: bench.pool.facts["r1"].ending is not None)
    await bench.server.drain(0.2)
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert (await ending).run_id == "r1"
    assert await engine.status() is grpc.StatusCode.UNAVAILABLE
    assert not bench.pool.core.engines()


def test_taken_ports_and_malformed_addresses_are_one_sentence(bench_port):
    with pytest.raises(ListenError, match="in use"):
        serve_metrics(f"127.0.0.1:{bench_port}", None)
    for address in ("localhost", "localhost:http", "1.2.3.4:99999", "127.0.0.1:²"):
        with pytest.raises(ListenError, match="host:port"):
            serve_metrics(address, None)


@pytest.fixture
def bench_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def in_process(capsys):
    """The program's main, and what it wrote to stderr.

    gRPC's poller of an earlier test's loop may complain in between, with a traceback of its own.
    """

    def run(*arguments):
        code = main(arguments)
        said = capsys.readouterr().err
        assert "justitia_scheduler/" not in said  # no traceback of ours
        return code, [line for line in said.splitlines() if line.startswith("justitia-scheduler:")]

    return run


def test_a_taken_port_ends_the_program_with_one_sentence_and_code_2(in_process, bench_port):
    address = f"127.0.0.1:{bench_port}"
    for arguments in (
        ("--listen-address", address, "--metrics-address", "off"),
        ("--listen-address", "127.0.0.1:0", "--metrics-address", address),
    ):
        code, said = in_process(*arguments)
        assert code == 2
        assert len(said) == 1
        assert "in use" in said[0]


def test_an_unusable_file_ends_the_program_with_one_sentence_and_code_2(in_process, tmp_path):
    missing = str(tmp_path / "missing" / "file")
    for arguments in (
        ("--journal-path", missing),
        ("--tls-cert", missing, "--tls-key", missing),
        ("--listen-address", "nowhere"),
        ("--listen-address", "127.0.0.1:²"),
    ):
        code, said = in_process("--metrics-address", "off", *arguments)
        assert code == 2
        assert len(said) == 1, said


def test_a_second_signal_ends_the_process_at_once():
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "justitia_scheduler", "--drain-s", "60"),
            *("--listen-address", "127.0.0.1:0", "--metrics-address", "off"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = next(line for line in process.stderr if "serving" in line)
        port = line.split(" port=")[1].split()[0]
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            next(watch)  # a stream that its client keeps open keeps the drain waiting
            process.send_signal(signal.SIGTERM)
            next(line for line in process.stderr if "draining" in line)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
            process.send_signal(signal.SIGINT)
            assert process.wait(5) == 128 + signal.SIGINT
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
