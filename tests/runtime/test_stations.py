"""Name, port, interface, transport: each station says what is there, and what is in the way."""

import dataclasses
import socket

import pytest

from dtlib.runtime import stations
from dtlib.runtime.doctor import network_report
from dtlib.runtime.stations import EXAMPLE, STATIONS, this_host


def host(**changes):
    """The example host with other variables or parts."""
    if "variables" in changes:
        changes["variables"] = {**EXAMPLE.variables, **changes["variables"]}
        changes["variables"] = {k: v for k, v in changes["variables"].items() if v is not None}
    return dataclasses.replace(EXAMPLE, **changes)


HEALTHY = {"NCCL_IB_DISABLE": None, "NCCL_P2P_DISABLE": None}
ALONE = dict.fromkeys(("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def refuse(*_):
    raise ConnectionRefusedError(111, "Connection refused")


def unknown(name):
    raise socket.gaierror(-2, "Name or service not known")


def only(known):
    """A network that knows one name."""
    return lambda name: "10.0.0.9" if name == known else unknown(name)


@pytest.mark.parametrize(
    ("station", "changes", "said"),
    [
        (
            "ranks",
            {"variables": ALONE},
            "no launcher has spoken, so launch(n) starts its own ranks",
        ),
        (
            "ranks",
            {"variables": {**ALONE, "SLURM_PROCID": "3"}},
            "SLURM_PROCID is set, which PyTorch does not read",
        ),
        ("ranks", {}, "rank 8 of 16, from the environment: a script's launch() joins that world"),
        ("name", {}, "node-1 is 10.0.0.12, node-0 is 10.0.0.11"),
        ("port", {}, "node-0:29500 answers"),
        ("port", {"variables": {"RANK": "0"}}, "29500, is free here"),
        ("port", {"variables": ALONE}, "29500, which is PyTorch's default, is free here"),
        ("interfaces", {}, "lo 127.0.0.1, eth0 10.0.0.12, ib0 10.1.0.12"),
        ("interfaces", {"variables": {"NCCL_SOCKET_IFNAME": "^lo,eth"}}, "NCCL may use ib0"),
        ("transport", {"variables": HEALTHY}, "out of it mlx5_0 (400 Gb/sec (4X NDR))"),
        ("transport", {"variables": HEALTHY}, "NVLink or PCIe, as nvidia-smi topo -m says"),
        ("transport", {"gpus": 0}, "gloo between processes of this machine; out of it sockets"),
        ("variables", {"variables": HEALTHY}, "none that changes how ranks talk"),
        ("variables", {"variables": {"NCCL_IB_DISABLE": "0"}}, "NCCL_P2P_DISABLE=1: SLOW"),
        ("variables", {"variables": {"NCCL_TIMEOUT": "60"}}, "read neither by NCCL nor by PyTorch"),
    ],
)
def test_a_station_says_what_it_found(station, changes, said):
    assert said in STATIONS[station](host(**changes))


@pytest.mark.parametrize(
    ("station", "changes", "said"),
    [
        ("ranks", {"variables": {"WORLD_SIZE": None}}, "WORLD_SIZE not; start with torchrun"),
        ("ranks", {"variables": {"RANK": "16"}}, "RANK is '16' of WORLD_SIZE '16'"),
        ("ranks", {"variables": {"RANK": "one"}}, "RANK is 'one'"),
        ("name", {"resolve": unknown}, "node-1 and node-0 do not resolve; add them to /etc/hosts"),
        ("name", {"name": "x", "resolve": only("node-0")}, "PROBLEM: x does not resolve; add it"),
        ("name", {"resolve": only("node-1")}, "PROBLEM: node-0 does not resolve; add it"),
        ("name", {"resolve": lambda _: "127.0.0.1"}, "leads every node to itself"),
        ("port", {"connect": refuse}, "node-0:29500 does not answer (connection refused)"),
        ("port", {"variables": {"RANK": "0"}, "listen": refuse}, "29500 is not free"),
        ("port", {"variables": {"MASTER_PORT": "http"}}, "a number from 1 to 65535 is wanted"),
        ("interfaces", {"variables": {"GLOO_SOCKET_IFNAME": "eth9"}}, "there is no eth9 with an"),
        (
            "interfaces",
            {"variables": {"GLOO_SOCKET_IFNAME": "eth9,eth0,ib7"}},
            "there is no eth9 and no ib7 with an address. There is: lo 127.0.0.1, eth0",
        ),
        ("interfaces", {"variables": {"NCCL_SOCKET_IFNAME": "bond"}}, "leaves no interface of"),
        ("transport", {}, "is there and not used: unset NCCL_IB_DISABLE"),
        ("transport", {"variables": {**HEALTHY, "NCCL_NET": "Socket"}}, "not used: unset NCCL_NET"),
        (
            "transport",
            {"variables": {"NCCL_NET": "Socket"}},
            "not used: unset NCCL_IB_DISABLE and NCCL_NET",
        ),
    ],
)
def test_a_problem_is_a_line_that_says_what_to_do(station, changes, said):
    found = STATIONS[station](host(**changes))
    assert "PROBLEM: " in found and said in found


@pytest.mark.parametrize("port", ["0", "65536", "-1", "29500.0", ""])
def test_a_port_is_a_number_from_1_to_65535(port):
    said = STATIONS["port"](host(variables={"MASTER_PORT": port}))
    assert said == f"PROBLEM: MASTER_PORT is {port!r}; a number from 1 to 65535 is wanted"
    for allowed in ("1", "65535"):
        said = STATIONS["port"](host(variables={"MASTER_PORT": allowed}))
        assert said == f"node-0:{allowed} answers"


@pytest.mark.parametrize(("rank", "size"), [("0", "1"), ("15", "16")])
def test_a_rank_below_the_size_is_one(rank, size):
    said = STATIONS["ranks"](host(variables={"RANK": rank, "WORLD_SIZE": size}))
    assert said.startswith(f"rank {rank} of {size}, from the environment")


@pytest.mark.parametrize(("here", "warned"), [("8", True), ("16", False), (None, False)])
def test_a_loopback_address_is_wrong_for_several_nodes_only(here, warned):
    said = STATIONS["name"](
        host(variables={"LOCAL_WORLD_SIZE": here}, resolve=lambda _: "127.0.0.1")
    )
    assert said.startswith("node-1 is 127.0.0.1, node-0 is 127.0.0.1")
    assert ("leads every node to itself" in said) is warned


def test_every_variable_that_is_set_is_told_and_a_switch_that_is_off_is_not():
    names = stations._VARIABLES
    said = STATIONS["variables"](host(variables=dict.fromkeys(names, "1")))
    assert said.split("; ")[0] == f"NCCL_IB_DISABLE=1: {names['NCCL_IB_DISABLE']}"
    assert all(f"{name}=1: {what}" in said for name, what in names.items())
    said = STATIONS["variables"](host(variables=dict.fromkeys(names, "0")))
    switches = ("NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "CUDA_LAUNCH_BLOCKING")
    assert {name for name in names if f"{name}=0: " in said} == names.keys() - set(switches)


CARD = "mlx5_0 (400 Gb/sec (4X NDR))"
TOPOLOGY = "NVLink or PCIe, as nvidia-smi topo -m says"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, f"NCCL over {TOPOLOGY} between 8 GPUs; out of it {CARD}"),
        (
            {"variables": {**HEALTHY, "NCCL_P2P_DISABLE": "1"}},
            "NCCL over host memory (NCCL_P2P_DISABLE is set) between 8 GPUs; out of it " + CARD,
        ),
        ({"gpus": 1}, f"one GPU, so none inside; out of it {CARD}"),
        (
            {"gpus": 2, "infiniband": ()},
            f"NCCL over {TOPOLOGY} between 2 GPUs; out of it sockets over eth0",
        ),
        ({"gpus": 0}, "gloo between processes of this machine; out of it sockets over eth0"),
        (
            {"gpus": 0, "interfaces": {"lo": "127.0.0.1", "docker0": "172.17.0.1"}},
            "gloo between processes of this machine; out of it sockets, and no interface leads out",
        ),
        # NCCL's network is off, and nobody here uses NCCL.
        (
            {"gpus": 0, "variables": {"NCCL_IB_DISABLE": "1"}},
            "gloo between processes of this machine; out of it sockets over eth0",
        ),
    ],
)
def test_the_transport_is_one_way_inside_and_one_way_out(changes, said):
    assert STATIONS["transport"](host(**{"variables": HEALTHY, **changes})) == said


def test_two_ports_are_both_named():
    report = STATIONS["transport"](host(variables=HEALTHY, infiniband=("mlx5_0", "mlx5_1")))
    assert report.endswith("out of it mlx5_0, mlx5_1")


def test_the_report_of_a_host_has_every_station_and_is_the_same_every_time():
    report = network_report(EXAMPLE)
    titles = [line[:16].strip() for line in report.splitlines()]
    assert [title for title in titles if title] == list(STATIONS)
    assert max(map(len, report.splitlines())) <= 72
    assert report == network_report(EXAMPLE)


def test_a_station_that_fails_is_a_line_as_well():
    def broken(_):
        raise RuntimeError("no\nnetwork")

    assert "name             PROBLEM: no network" in network_report(host(resolve=broken))


def test_this_host_is_looked_at_for_real(monkeypatch):
    for name in stations.FOUR:
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as busy:
        busy.bind(("", 0))
        busy.listen()
        port = busy.getsockname()[1]
        monkeypatch.setenv("MASTER_PORT", str(port))
        assert f"{port} is not free (address already in use)" in stations.port_station(this_host())
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        assert stations.port_station(this_host()) == f"127.0.0.1:{port} answers"
    assert "does not answer" in stations.port_station(this_host())


@pytest.mark.skipif(stations.sys.platform != "linux", reason="addresses come from Linux")
def test_loopback_is_an_interface_with_its_address():
    assert "127.0.0.1" in this_host().interfaces.values()


def test_only_active_ports_count(tmp_path):
    for name, state in (("mlx5_0", "4: ACTIVE\n"), ("mlx5_1", "1: DOWN\n")):
        port = tmp_path / name / "ports" / "1"
        port.mkdir(parents=True)
        (port / "state").write_text(state)
        (port / "rate").write_text("200 Gb/sec (4X HDR)\n")
    (tmp_path / "mlx5_2" / "ports" / "1").mkdir(parents=True)
    assert stations._infiniband(tmp_path) == ("mlx5_0 (200 Gb/sec (4X HDR))",)
