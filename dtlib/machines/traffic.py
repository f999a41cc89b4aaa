"""What a rank passes on in a step, and how long a boundary needs for it.

What data parallelism sends is `data_parallel_bytes`, in `dtlib.foundations.roofline.intensity`.
"""

from dtlib.formulas.formula import formula


@formula(
    r"T_\text{out}",
    "s",
    "load over bandwidth of the busiest boundary",
    "groups are rings or chains of consecutive ranks; all links of a boundary are used",
)
def boundary_time(traffic, members, container, uplink):
    """How long the traffic of an axis needs to leave its containers.

    A container holds `container / members` groups, and one link of each leaves it.

    >>> boundary_time(traffic=1e9, members=1, container=8, uplink=400e9)
    0.02
    >>> boundary_time(traffic=1e9, members=8, container=8, uplink=400e9)
    0.0025
    """
    return container / members * traffic / uplink


@formula(
    r"\beta_\text{alg}",
    "B/s",
    "Patarasuk & Yuan 2009",
    "a ring, with one port per rank and without latency",
)
def ring_algorithm_bandwidth(P, beta):
    """Bytes of the buffer over the time of a ring all-reduce: what a user of it experiences.

    Every rank sends 2(P - 1)/P of the buffer through its port.

    >>> round(ring_algorithm_bandwidth(P=8, beta=450e9) / 1e9)
    257
    """
    return beta * P / (2 * (P - 1))


@formula(
    r"v_\text{tensor}",
    "B",
    "Shoeybi et al. 2019, with the ring of Patarasuk & Yuan 2009",
    "two all-reduces forward and two backward per layer, nothing recomputed",
)
def tensor_traffic_bytes(layers, p, tokens_per_rank, hidden, tp, element_bytes):
    """What a rank passes on in a step because several ranks share each of its layers.

    Four ring all-reduces of the activations for each of the rank's layers.

    >>> tensor_traffic_bytes(1, 1, tokens_per_rank=1000, hidden=1000, tp=2, element_bytes=2)
    8000000.0
    """
    return 4 * layers / p * 2 * (tp - 1) / tp * tokens_per_rank * hidden * element_bytes


@formula(
    r"v_\text{pipeline}",
    "B",
    "Narayanan et al. 2021",
    "a stage between two others; every tensor-parallel rank sends its own copy",
)
def pipeline_traffic_bytes(tokens_per_rank, hidden, element_bytes):
    """What a rank passes on in a step because the layers are cut into stages.

    The activations of every token to the next stage, their gradients to the one before.

    >>> pipeline_traffic_bytes(tokens_per_rank=1000, hidden=1000, element_bytes=2)
    4000000
    """
    return 2 * tokens_per_rank * hidden * element_bytes
