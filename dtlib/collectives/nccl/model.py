"""How long NCCL takes: the alpha-beta model of the algorithms, and what must be added to it.

With the best latency and bandwidth, alpha-beta times are a fifth off from what NCCL takes on the
GPUs of one node. Three things are missing, each a constant of the machine and the library, the same
for every operation:

    launch        a kernel starts, whatever it moves
    handover      a message moves in pieces, and each piece is waited for and announced
    own_beta      a rank's own share of the result crosses no link, but it is moved too

With latency and bandwidth they are a `CollectiveModel`. Two exceptions cost a constant or two more:
an all-to-all talks to every rank at once (`exchange`), and the switches of H100 nodes and later
ones can add (`switch_setup`, `switch_beta`). On 558 published times the mean of
|predicted / measured - 1| is

                                          constants   all     A100    H100   other A100   H200
    one latency, one bandwidth a machine       8     19.9 %  19.3 %  22.3 %    14.7 %    10.4 %
    the two for each operation and P          56     13.5 %  14.2 %  13.4 %    14.7 %     6.7 %
    this model                                16      6.3 %   6.2 %   6.8 %     9.1 %     2.4 %

On the sizes that the constants were not fitted to it is 6.3 % (A100) and 7.0 % (H100), on each
group size predicted from the others 6.6 % and 7.3 %. The two runs in the last columns are of other
machines and tools: only `launch` was fitted to them. Constants of one generation do not carry over
to the next: with its bandwidth scaled as the data sheets do, the A100 is 29 % off from the H100's.

`benchmarks/collectives/nccl_model.py` prints this table; `nccl_sample` has some of the times;
`fitting` finds the constants of your own machine.

What it does not know: that NCCL changes its protocol at certain sizes, and jumps there (an
all-reduce of two A100s takes twice as long for 1 MiB as for 512 KiB, and a sixth longer for 2 MiB).
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import minimum, sqrt
from dtlib.formulas.require import require
from dtlib.machines.datasheets import catalog
from dtlib.machines.machine import GPU

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
PATHS = (None, "ring", "switch")
IN_PIECES = "one node whose links do not contend; the number of pieces is the best one"


@formula(
    r"T_\text{pieces}",
    "s",
    "Hockney 1994, with the best number of pieces",
    "each piece costs the same handover; the receiver starts after the first piece",
)
def streamed_time(n, beta, handover):
    """The time to move bytes in pieces when the next station begins as soon as it has a piece.

    k pieces take k handovers and pass k + 1 times through a station, which makes k handovers + (1 +
    1/k) n/beta; that is least when k squared is n/beta over the handover.

    >>> f"{streamed_time(n=16e6, beta=250e9, handover=7e-6) * 1e6:.1f} us"
    '106.3 us'
    """
    return n / beta + 2 * sqrt(handover * n / beta)


@formula(r"T_\text{AR}^\text{stream}", "s", "Patarasuk & Yuan 2009, in pieces", IN_PIECES)
def streamed_all_reduce_time(n, P, launch, alpha, beta, handover, own_beta):
    """The time of a ring all-reduce of a library that cuts its messages into pieces.

    A start, 2(P - 1) latencies, the bytes of a ring, streamed, and the own share.

    >>> time = streamed_all_reduce_time(2**29, 8, 8e-6, 0.9e-6, 248e9, 7e-6, 780e9)
    >>> f"{time * 1e3:.2f} ms"
    '4.22 ms'
    """
    return (
        launch
        + 2 * (P - 1) * alpha
        + streamed_time(2 * (P - 1) / P * n, beta, handover)
        + n / (P * own_beta)
    )


@formula(r"T_\text{AG}^\text{stream}", "s", "Patarasuk & Yuan 2009, in pieces", IN_PIECES)
def streamed_all_gather_time(n, P, launch, alpha, beta, handover, own_beta):
    """The time of a ring all-gather of `n` bytes in all, and of a reduce-scatter of `n` a rank.

    Half the steps and half the bytes of `streamed_all_reduce_time`.

    >>> time = streamed_all_gather_time(2**29, 8, 8e-6, 0.9e-6, 248e9, 7e-6, 780e9)
    >>> f"{time * 1e3:.2f} ms"
    '2.22 ms'
    """
    return (
        launch
        + (P - 1) * alpha
        + streamed_time((P - 1) / P * n, beta, handover)
        + n / (P * own_beta)
    )


@formula(
    r"T_\text{A2A}^\text{stream}",
    "s",
    "count",
    IN_PIECES + "; every rank reaches every other directly",
)
def streamed_all_to_all_time(n, P, launch, exchange, beta, handover, own_beta):
    """The time of an all-to-all that hands all its messages to the switch at once.

    A start, the setting up of the sends, P - 1 of P shares, streamed, and the own share. No latency
    is paid P - 1 times: nobody waits for a message to pass it on.

    >>> time = streamed_all_to_all_time(2**29, 8, 8e-6, 4e-6, 248e9, 7e-6, 780e9)
    >>> f"{time * 1e3:.2f} ms"
    '2.22 ms'
    """
    return launch + exchange + streamed_time((P - 1) / P * n, beta, handover) + n / (P * own_beta)


@formula(
    r"T_\text{AR}^\text{switch}",
    "s",
    "count",
    "the switch reads, adds and copies; each rank asks it for the sum of one share",
)
def switch_all_reduce_time(n, P, launch, switch_setup, beta):
    """The time of an all-reduce whose adding is done by the switch.

    A rank's port sends its n bytes once, as each rank asks for the sum of its own n/P, and then the
    n/P of the finished sum that it asked for. So (P + 1)/P of n, where a ring sends 2(P - 1)/P of
    n, and ever less a rank as ranks join.

    >>> f"{switch_all_reduce_time(2**29, 8, 4e-6, 70e-6, 300e9) * 1e3:.2f} ms"
    '2.09 ms'
    """
    return launch + switch_setup + (P + 1) / P * n / beta


@dataclass(frozen=True)
class CollectiveModel:
    """A machine and its library, as the times of its collectives show them.

    - `launch`: starting a kernel and its end, in seconds; with what a benchmark adds to each call.
    - `alpha`: seconds of one step of a ring, from a rank's flag to its neighbour's next read.
    - `handover`: seconds for which a piece of a message waits: flags, and a full buffer.
    - `beta`: bytes/s per direction of a GPU's links, headers and flags paid: 83 % of what the data
      sheet says for the A100 below, 87 % for the H100.
    - `own_beta`: bytes/s at which a rank moves its own share n/P within its memory.
    - `exchange`: seconds that an all-to-all takes to set up a send and a receive for each rank.
    - `switch_setup`, `switch_beta`: the same for an all-reduce that the switch adds up; `None` when
      the switch cannot add.
    """

    name: str
    launch: float
    alpha: float
    handover: float
    beta: float
    own_beta: float
    exchange: float = 0.0
    switch_setup: float | None = None
    switch_beta: float | None = None

    def time(self, operation: str, n, P, path: str | None = None):
        """Seconds that a collective takes.

        `n` is the size in bytes as nccl-tests counts it, that of the larger buffer of a rank: of
        all ranks' shares in an all-gather or a reduce-scatter. It may be an array, as may `P`.
        An all-reduce takes the faster of two paths, "ring" and "switch", unless one is named.
        Raises ValueError for an unknown operation or path, n below 0 or fewer than 2 ranks.

        >>> h100 = nccl_models["h100-sxm"]
        >>> [f"{h100.time('all_reduce', 2**29, P) * 1e3:.2f} ms" for P in (2, 4, 8)]
        ['1.79 ms', '2.30 ms', '2.08 ms']
        """
        self._check(operation, n, P, path)
        streaming = (self.beta, self.handover, self.own_beta)
        if operation == "all_to_all":
            return streamed_all_to_all_time(n, P, self.launch, self.exchange, *streaming)
        if operation != "all_reduce":
            return streamed_all_gather_time(n, P, self.launch, self.alpha, *streaming)
        ring = streamed_all_reduce_time(n, P, self.launch, self.alpha, *streaming)
        if path == "ring" or not self.adds_in_switch:
            return ring
        switch = switch_all_reduce_time(n, P, self.launch, self.switch_setup, self.switch_beta)
        return switch if path == "switch" else minimum(ring, switch)

    @property
    def adds_in_switch(self) -> bool:
        """Whether an all-reduce may be added up by the switch."""
        return self.switch_beta is not None

    def _check(self, operation, n, P, path) -> None:
        owner = f"CollectiveModel {self.name!r}"
        require(operation in OPERATIONS, owner, "operation", operation, f"in {list(OPERATIONS)}")
        require(path in PATHS, owner, "path", path, f"in {list(PATHS)}")
        ringed = path != "switch" or (operation == "all_reduce" and self.adds_in_switch)
        require(ringed, owner, "path", path, "'ring', as the switch does not add this up")
        require(_least(n) >= 0, owner, "n", n, "at least 0")
        require(_least(P) >= 2, owner, "P", P, "at least 2")


def _least(value):
    return value.min() if hasattr(value, "min") else value


_A100 = CollectiveModel(
    "a100-sxm",
    launch=7.97e-6,
    alpha=0.912e-6,
    handover=7.02e-6,
    beta=248e9,
    own_beta=777e9,
    exchange=3.81e-6,
)
_H100 = CollectiveModel(
    "h100-sxm",
    launch=4.45e-6,
    alpha=0.815e-6,
    handover=2.70e-6,
    beta=390e9,
    own_beta=929e9,
    exchange=2.85e-6,
    switch_setup=70.0e-6,
    switch_beta=301e9,
)

# The last two are other machines and other benchmarks, of which only the start was fitted.
nccl_models: dict[str, CollectiveModel] = {
    model.name: model
    for model in (
        _A100,
        _H100,
        replace(_A100, name="a100-sxm, slow start", launch=32.9e-6),
        replace(_H100, name="h200-sxm, slow start", launch=23.5e-6),
    )
}

# Machines that differ from a measured one in a link or a memory only; the start is that one's.
_SISTERS = {
    "a800-sxm": "a100-sxm",
    "h200-sxm": "h100-sxm",
    "h800-sxm": "h100-sxm",
    "h20": "h100-sxm",
}
# Links whose switches add, and the share of the rate that they reach over that of the H100's. The
# last is between what public nccl-tests logs of eight GPUs show: 0.80 for 128 MiB to 4 GiB on B200
# (a guide to Google Cloud's A4), 0.90 for 16 GiB on GB300 (a guide to Oracle's GB300 nodes).
_SWITCHES_THAT_ADD = {"nvlink4": 1.0, "nvlink-h800": 1.0, "nvlink5": 0.82}
# A link of 1.5 times the rate came with own shares that move 1.2 times as fast (A100, H100).
_OWN_POWER = 0.44


@lru_cache
def collective_model(gpu: GPU) -> CollectiveModel:
    """The model of the collectives inside a node of such GPUs, also where none was measured.

    Equation: a link reaches the share of its data sheet that a measured one does, and a rank's own
    share moves faster by a power of what the link does. Latencies do not shrink from one generation
    to the next, so they are the longest known.
    Argument: `gpu`. One of `nccl_models` has its own model; one that differs from it in link or
    memory only (H200) starts as that does; any other has the shares of the H100.
    Returns a `CollectiveModel` under the GPU's name.

    >>> b200 = collective_model(catalog["b200-sxm"])
    >>> f"{b200.launch * 1e6:.2f} us, {b200.beta / 1e9:.0f} GB/s"
    '7.97 us, 780 GB/s'
    """
    if gpu.name in nccl_models:
        return nccl_models[gpu.name]
    known = nccl_models[_SISTERS.get(gpu.name, "h100-sxm")]
    faster = gpu.link.beta / catalog[known.name].link.beta
    longest = known if gpu.name in _SISTERS else _longest(_A100, _H100)
    adds = known.adds_in_switch and _SWITCHES_THAT_ADD.get(gpu.link.name)
    return replace(
        known,
        name=gpu.name,
        launch=longest.launch,
        alpha=longest.alpha,
        exchange=longest.exchange,
        beta=known.beta * faster,
        own_beta=known.own_beta * faster**_OWN_POWER,
        switch_setup=known.switch_setup if adds else None,
        switch_beta=known.switch_beta * faster * _SWITCHES_THAT_ADD[gpu.link.name]
        if adds
        else None,
    )


def _longest(*models: CollectiveModel) -> CollectiveModel:
    """The longest latencies of some models, whatever else they have."""
    names = ("launch", "alpha", "exchange")
    return replace(models[0], **{name: max(getattr(m, name) for m in models) for name in names})
