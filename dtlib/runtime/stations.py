"""The four stations of a run that starts: name, port, interface, transport.

Each station is a function of the `Host`, which is all that it may look at: the environment, the
interfaces, the GPUs and ports of this machine, and two ways to ask the network. A problem is a line
that says what to do.
"""

import os
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dtlib.runtime.backend import visible_gpus

FOUR = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
DEFAULT_PORT = 29500
_PATIENCE = 2.0  # seconds for one connection
_SIOCGIFADDR = 0x8915  # Linux: the address of an interface
_OFF = ("", "0")


@dataclass(frozen=True)
class Host:
    """What a machine and its environment offer to a process group."""

    variables: Mapping[str, str]
    name: str
    interfaces: Mapping[str, str]
    infiniband: tuple[str, ...]
    gpus: int
    resolve: Callable[[str], str]
    connect: Callable[[str, int], None]
    listen: Callable[[int], None]


def this_host() -> Host:
    """The machine that this process runs on."""
    return Host(
        variables=os.environ,
        name=socket.gethostname(),
        interfaces=_interfaces(),
        infiniband=_infiniband(),
        gpus=visible_gpus(),
        resolve=socket.gethostbyname,
        connect=_connect,
        listen=_listen,
    )


def ranks_station(host: Host) -> str:
    """Who this process is: whether a launcher, or a pod, has given it a rank."""
    given = [name for name in FOUR if name in host.variables]
    if not given:
        hint = [name for name in ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK") if name in host.variables]
        dialect = f"; {hint[0]} is set, which PyTorch does not read" if hint else ""
        return f"no launcher has spoken, so launch(n) starts its own ranks{dialect}"
    missing = [name for name in FOUR if name not in host.variables]
    if missing:
        return (
            f"PROBLEM: {', '.join(given)} set, {', '.join(missing)} not; start with torchrun, or "
            f"unset {' '.join(given)}"
        )
    rank, size = host.variables["RANK"], host.variables["WORLD_SIZE"]
    if not (rank.isdigit() and size.isdigit() and int(rank) < int(size)):
        return f"PROBLEM: RANK is {rank!r} of WORLD_SIZE {size!r}; ranks go from 0 to size - 1"
    return (
        f"rank {rank} of {size}, from the environment: a script's launch() joins that world, a "
        "notebook's starts its own ranks. If a pod has set this and a script is to do so, too: "
        f"unset {' '.join(FOUR[:2])}"
    )


def name_station(host: Host) -> str:
    """Do the names resolve that the ranks will look for?"""
    address = host.variables.get("MASTER_ADDR")
    found = {name: _resolved(host, name) for name in (host.name, address) if name}
    lost = [name for name, at in found.items() if not at]
    if lost:
        verb, what = ("does", "it") if len(lost) == 1 else ("do", "them")
        return (
            f"PROBLEM: {' and '.join(lost)} {verb} not resolve; add {what} to /etc/hosts or use an "
            "address"
        )
    told = ", ".join(f"{name} is {at}" for name, at in found.items())
    if address and _is_loopback(found[address]) and _several_nodes(host):
        return f"{told}; PROBLEM: a loopback address leads every node to itself"
    return told


def _resolved(host: Host, name: str) -> str:
    try:
        return host.resolve(name)
    except OSError:
        return ""


def port_station(host: Host) -> str:
    """Is the master's port free on rank 0, and does it answer to the others?"""
    text = host.variables.get("MASTER_PORT", str(DEFAULT_PORT))
    if not (text.isdigit() and 0 < int(text) < 65536):
        return f"PROBLEM: MASTER_PORT is {text!r}; a number from 1 to 65535 is wanted"
    port, address = int(text), host.variables.get("MASTER_ADDR", host.name)
    if host.variables.get("RANK", "0") != "0":
        try:
            host.connect(address, port)
        except OSError as error:
            return (
                f"PROBLEM: {address}:{port} does not answer ({_reason(error)}); is rank 0 up, and "
                "does a firewall stand between?"
            )
        return f"{address}:{port} answers"
    try:
        host.listen(port)
    except OSError as error:
        return (
            f"PROBLEM: {port} is not free ({_reason(error)}); ss -ltnp shows whose it is. Choose "
            "another with --master-port"
        )
    given = "" if "MASTER_PORT" in host.variables else ", which is PyTorch's default"
    return f"{port}{given}, is free here"


def interface_station(host: Host) -> str:
    """Which interfaces have an address, and do the variables name one of them?"""
    shown = ", ".join(f"{name} {address}" for name, address in host.interfaces.items())
    gloo, nccl = (host.variables.get(f"{who}_SOCKET_IFNAME", "") for who in ("GLOO", "NCCL"))
    unknown = [name for name in gloo.split(",") if name and name not in host.interfaces]
    if unknown:
        return (
            f"PROBLEM: GLOO_SOCKET_IFNAME is {gloo!r}; there is no {' and no '.join(unknown)} with "
            f"an address. There is: {shown}"
        )
    if nccl and not nccl_interfaces(nccl, host.interfaces):
        return f"PROBLEM: NCCL_SOCKET_IFNAME {nccl!r} leaves no interface of: {shown}"
    chosen = f"; gloo uses {gloo}" if gloo else ""
    chosen += f"; NCCL may use {', '.join(nccl_interfaces(nccl, host.interfaces))}" if nccl else ""
    return f"{shown or 'none with an IPv4 address'}{chosen}"


def nccl_interfaces(rule: str, names: Mapping[str, str]) -> list[str]:
    """The interfaces that a value of NCCL_SOCKET_IFNAME leaves: prefixes, `^` not, `=` exactly.

    >>> nccl_interfaces("^lo,docker", {"lo": "", "docker0": "", "eth0": ""})
    ['eth0']
    >>> nccl_interfaces("=eth0", {"eth0": "", "eth01": ""})
    ['eth0']
    """
    unwanted, rule = rule.startswith("^"), rule.removeprefix("^")
    exact, rule = rule.startswith("="), rule.removeprefix("=")
    wanted = [word for word in rule.split(",") if word]

    def named(name: str) -> bool:
        return any(name == word if exact else name.startswith(word) for word in wanted)

    return [name for name in names if named(name) is not unwanted]


def transport_station(host: Host) -> str:
    """By which way would messages go, inside this machine and out of it?"""
    if host.gpus and host.infiniband and (off := _turned_off(host)):
        there = ", ".join(host.infiniband)
        return f"PROBLEM: {there} is there and not used: unset {' and '.join(off)}"
    return f"{_inside(host)}; out of it {_outside(host)}"


def _inside(host: Host) -> str:
    if host.gpus == 0:
        return "gloo between processes of this machine"
    if host.gpus == 1:
        return "one GPU, so none inside"
    if _is_set(host, "NCCL_P2P_DISABLE"):
        way = "host memory (NCCL_P2P_DISABLE is set)"
    else:
        way = "NVLink or PCIe, as nvidia-smi topo -m says"
    return f"NCCL over {way} between {host.gpus} GPUs"


def _outside(host: Host) -> str:
    if host.gpus and host.infiniband:
        return ", ".join(host.infiniband)
    usable = [name for name in host.interfaces if not name.startswith(("lo", "docker"))]
    return f"sockets over {usable[0]}" if usable else "sockets, and no interface leads out"


def _turned_off(host: Host) -> list[str]:
    """The variables that keep NCCL from InfiniBand and RoCE."""
    names = []
    if _is_set(host, "NCCL_IB_DISABLE"):
        names.append("NCCL_IB_DISABLE")
    if host.variables.get("NCCL_NET") == "Socket":
        names.append("NCCL_NET")
    return names


# What is set and forgotten, and what it does. A variable that slows a run down says so first.
_VARIABLES = {
    "NCCL_IB_DISABLE": "SLOW: no InfiniBand and no RoCE, sockets instead",
    "NCCL_P2P_DISABLE": "SLOW: no NVLink and no PCIe between GPUs, host memory instead",
    "NCCL_SHM_DISABLE": "SLOW: no shared memory, the network inside the node instead",
    "NCCL_NVLS_ENABLE": "0 keeps NVLink switches from adding",
    "NCCL_NET": "forces one network plug-in",
    "NCCL_ALGO": "forces an algorithm: no choice by size any more",
    "NCCL_PROTO": "forces a protocol: no choice by size any more",
    "NCCL_DEBUG": "prints; INFO says which interface and transport are used",
    "NCCL_TIMEOUT": "read neither by NCCL nor by PyTorch; timeout= of init_process_group is",
    "CUDA_LAUNCH_BLOCKING": "SLOW: the host waits for every kernel",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL compares every collective first: for finding, not for runs",
    "CUDA_VISIBLE_DEVICES": "hides GPUs and numbers the rest from 0",
}


def variables_station(host: Host) -> str:
    """The variables that are set and change how ranks talk, with what they do."""
    found = [
        f"{name}={host.variables[name]}: {_VARIABLES[name]}"
        for name in _VARIABLES
        if name in host.variables and not (_switch(name) and not _is_set(host, name))
    ]
    return "; ".join(found) or "none that changes how ranks talk"


def _switch(name: str) -> bool:
    return name.endswith(("_DISABLE", "_BLOCKING"))


def _is_set(host: Host, name: str) -> bool:
    return host.variables.get(name, "") not in _OFF


def _several_nodes(host: Host) -> bool:
    size, here = (host.variables.get(name, "") for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    return size.isdigit() and here.isdigit() and int(size) > int(here)


def _is_loopback(address: str) -> bool:
    return address.startswith("127.")


def _reason(error: OSError) -> str:
    return (os.strerror(error.errno) if error.errno else str(error)).lower()


def _connect(address: str, port: int) -> None:
    socket.create_connection((address, port), _PATIENCE).close()


def _listen(port: int) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        listener.listen()


def _interfaces() -> dict[str, str]:
    """The interfaces that have an IPv4 address, with it; on macOS, without fcntl's number, all."""
    names = [name for _, name in socket.if_nameindex()]
    if sys.platform != "linux":
        return dict.fromkeys(names, "")
    found = {name: _address_of(name) for name in names}
    return {name: address for name, address in found.items() if address}


def _address_of(name: str) -> str:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        try:
            told = fcntl.ioctl(asker, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(told[20:24])


def _infiniband(root: Path = Path("/sys/class/infiniband")) -> tuple[str, ...]:
    """The active ports for InfiniBand or RoCE, with their rate."""
    found = []
    for port in sorted(root.glob("*/ports/*")):
        try:
            state, rate = (port / "state").read_text(), (port / "rate").read_text()
        except OSError:
            continue
        if "ACTIVE" in state:
            found.append(f"{port.parts[-3]} ({rate.strip()})")
    return tuple(found)


STATIONS: dict[str, Callable[[Host], str]] = {
    "ranks": ranks_station,
    "name": name_station,
    "port": port_station,
    "interfaces": interface_station,
    "transport": transport_station,
    "variables": variables_station,
}


def _example() -> Host:
    """The second of two nodes of eight GPUs, with two variables left over from a last search."""
    addresses = {"node-0": "10.0.0.11", "node-1": "10.0.0.12"}
    return Host(
        variables={
            "RANK": "8",
            "WORLD_SIZE": "16",
            "LOCAL_WORLD_SIZE": "8",
            "MASTER_ADDR": "node-0",
            "MASTER_PORT": "29500",
            "NCCL_IB_DISABLE": "1",
            "NCCL_P2P_DISABLE": "1",
        },
        name="node-1",
        interfaces={"lo": "127.0.0.1", "eth0": "10.0.0.12", "ib0": "10.1.0.12"},
        infiniband=("mlx5_0 (400 Gb/sec (4X NDR))",),
        gpus=8,
        resolve=addresses.__getitem__,
        connect=lambda address, port: None,
        listen=lambda port: None,
    )


EXAMPLE = _example()
