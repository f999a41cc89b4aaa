r"""One ratio behind every strategy: the length that must exceed a multiple of it.

Take rho, the arithmetic rate of a device over the bandwidth of its link: the FLOP that it could do
while one byte leaves. Work is a volume and what is sent a surface, so each strategy compares one
length of its own with rho. Where the length exceeds its multiple of rho, the arithmetic takes
longer than the communication, which can then hide behind it; where it does not, no schedule helps.

Rates are peak rates, so these are the strictest borders; a device that reaches half of its peak
needs half of each length. Latency is not in them. Bytes are sent by one rank, in one direction.
Passes are counted one by one, because communication of the forward pass cannot hide in the backward
pass; forward is the stricter one wherever the backward pass sends the same bytes with twice the
work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dtlib.formulas.formula import Formula, formula
from dtlib.formulas.require import require_positive
from dtlib.formulas.table import Table
from dtlib.formulas.units import format_quantity
from dtlib.foundations.roofline.intensity import backward_hiding_tokens, data_parallel_tokens
from dtlib.foundations.roofline.times import ridge_intensity
from dtlib.machines.datasheets import catalog

_PEAK = "peak rates on both sides; no latency"


@formula(
    r"\tau_\text{sharded}",
    "",
    "a gather of the weights in each pass, a scatter of the gradients backward",
    f"dense model; each pass hides its own communication; {_PEAK}",
)
def sharded_data_parallel_tokens(P, element_bytes, peak, beta):
    """The tokens per rank from which sharded weights can be gathered behind the arithmetic.

    Forward 2 FLOP per weight and token against one journey of the weight; backward 4 FLOP against
    two journeys, its gather and the scatter of its gradient: the same ratio.

    >>> round(sharded_data_parallel_tokens(P=10**9, element_bytes=2, peak=989e12, beta=400e9), 1)
    2472.5
    """
    return element_bytes / 2 * (P - 1) / P * ridge_intensity(peak, beta)


@formula(
    r"H_\text{tensor}",
    "",
    "Shoeybi et al. 2019, whose two all-reduces of the forward pass are counted",
    f"layers of 12 H^2 weights; the forward pass, the stricter one; {_PEAK}",
)
def tensor_parallel_width(tp, element_bytes, peak, beta):
    """The width of a model from which `tp` ranks can hide the sums inside each layer.

    24 H^2 / t FLOP per token and layer, against two all-reduces of H numbers.

    >>> round(tensor_parallel_width(tp=8, element_bytes=2, peak=989e12, beta=450e9))
    5128
    """
    return element_bytes * (tp - 1) / 6 * ridge_intensity(peak, beta)


@formula(
    r"H\ell_\text{stage}",
    "",
    "one activation per token leaves a stage",
    (
        "layers of 12 H^2 weights; the forward pass, the stricter one; idle time of the "
        f"pipeline is not counted; {_PEAK}"
    ),
)
def pipeline_parallel_extent(element_bytes, peak, beta):
    """The width times the layers of a stage from which a pipeline hides what it sends on.

    24 H^2 FLOP per token and layer of the stage, against H numbers.

    >>> round(pipeline_parallel_extent(element_bytes=2, peak=989e12, beta=50e9))
    1648
    """
    return element_bytes / 24 * ridge_intensity(peak, beta)


@formula(
    r"\tau_\text{context}",
    "",
    "Liu, Zaharia and Abbeel 2023, their condition for a ring of blocks",
    (f"attention alone, every token meets every other; forward and backward alike; {_PEAK}"),
)
def context_parallel_tokens(heads, kv_heads, element_bytes, peak, beta):
    """A rank's tokens of one sequence from which it can pass keys and values on while it computes.

    For each pair of a query and a key 4 FLOP per channel of a query head; for each key two numbers
    per channel of a key head. The rank's own queries are what is left.

    >>> round(context_parallel_tokens(64, 8, element_bytes=2, peak=989e12, beta=50e9))
    2472
    """
    return element_bytes / 2 * kv_heads / heads * ridge_intensity(peak, beta)


@formula(
    r"\tau_\text{causal}",
    "",
    "the same, with half of the pairs left by the mask",
    (f"causal attention, tokens dealt out so that every block of pairs is half full; {_PEAK}"),
)
def causal_context_parallel_tokens(heads, kv_heads, element_bytes, peak, beta):
    """The same under a causal mask whose work is spread evenly: half the work, the same bytes.

    Twice as many tokens.

    >>> round(causal_context_parallel_tokens(64, 8, element_bytes=2, peak=989e12, beta=50e9))
    4945
    """
    return 2 * context_parallel_tokens(heads, kv_heads, element_bytes, peak, beta)


@formula(
    r"H_\text{expert}",
    "",
    "a token goes to each of its experts and comes back",
    (
        "gated experts of three matrices, tokens spread evenly; the forward pass, the "
        f"stricter one; {_PEAK}"
    ),
)
def expert_parallel_width(ep, element_bytes, peak, beta):
    """The inner width of an expert from which its tokens can travel behind the arithmetic.

    6 H H_ffn FLOP for each copy of a token, against two journeys of H numbers, of which one in P_ep
    stays at home.

    >>> round(expert_parallel_width(ep=10**9, element_bytes=2, peak=989e12, beta=450e9))
    1465
    """
    return element_bytes / 3 * (ep - 1) / ep * ridge_intensity(peak, beta)


@formula(
    r"\tau_\text{offload}",
    "",
    "weights come from the host once in each pass",
    (
        "dense model; both directions of the link at once; the forward pass, the stricter "
        f"one; {_PEAK}"
    ),
)
def parameter_offload_tokens(element_bytes, peak, beta):
    """The tokens per rank from which weights can be fetched from the host behind the arithmetic.

    Forward 2 FLOP per weight and token, against one journey of the weight. `beta` is the bandwidth
    from the host.

    >>> round(parameter_offload_tokens(element_bytes=2, peak=989e12, beta=64e9))
    15453
    """
    return element_bytes / 2 * ridge_intensity(peak, beta)


@formula(
    r"H_\text{offload}",
    "",
    "the input of each layer goes to the host and comes back",
    (
        "layers of 12 H^2 weights, of which only the input is kept; the forward pass, the "
        f"stricter one; {_PEAK}"
    ),
)
def activation_offload_width(element_bytes, peak, beta):
    """The width from which the input of each layer can go to the host behind the arithmetic.

    24 H^2 FLOP per token and layer, against H numbers. `beta` is the bandwidth to the host.

    >>> round(activation_offload_width(element_bytes=2, peak=989e12, beta=64e9))
    1288
    """
    return element_bytes / 24 * ridge_intensity(peak, beta)


@dataclass(frozen=True)
class Border:
    """One line of the table: a strategy, the length that decides, and where its border lies.

    Arguments: `strategy`; `length`, in words; `formula` of the least length that hides;
    `setting`, the values of what else it depends on, where the table shows one number; `members`,
    how many ranks of its ring sit side by side in each node, when it reaches over nodes: so many
    network ports carry it (1: it sends to one remote rank; 0: it never leaves the machine).

    >>> round(HIDING["tensor"].factor(), 2), HIDING["tensor"].least(rho=2198, tp=2)
    (2.33, 732.6...)
    """

    strategy: str
    length: str
    formula: Formula = field(repr=False)
    setting: Mapping[str, float] = field(default_factory=dict, repr=False, hash=False)
    members: int = 1

    def least(self, rho: float, element_bytes: float = 2, **setting: float) -> float:
        """The least length that hides, for `rho` FLOP/B. Raises ValueError unless rho > 0."""
        require_positive(self.strategy, rho=rho)
        given = {"element_bytes": element_bytes, **self.setting, **setting}
        values = {k: given[k] for k in self.formula.parameters if k in given}
        return self.formula(peak=rho, beta=1, **values)

    def factor(self, **setting: float) -> float:
        """The multiple of rho that the length must reach, for numbers of two bytes."""
        return self.least(1, **setting)


MANY = 10**9  # ranks: (P-1)/P is 1
NODE = "dgx-h100"
_BORDERS = (
    Border(
        "data, behind the backward pass", "tokens per GPU", backward_hiding_tokens, {"P": MANY}, 8
    ),
    Border("data, behind the whole step", "tokens per GPU", data_parallel_tokens, {"P": MANY}, 8),
    Border("sharded data (ZeRO-3)", "tokens per GPU", sharded_data_parallel_tokens, {"P": MANY}, 8),
    Border("tensor", "width, on 8 ranks", tensor_parallel_width, {"tp": 8}, 4),
    Border("pipeline", "width x layers of a stage", pipeline_parallel_extent),
    Border(
        "context",
        "a rank's tokens of one sequence, 8 key heads for 64",
        context_parallel_tokens,
        {"kv_heads": 8, "heads": 64},
    ),
    Border(
        "context, causal",
        "the same, under a mask that is spread evenly",
        causal_context_parallel_tokens,
        {"kv_heads": 8, "heads": 64},
    ),
    Border("expert", "inner width of an expert", expert_parallel_width, {"ep": MANY}),
    Border("weights on the host", "tokens per GPU", parameter_offload_tokens, members=0),
    Border("activations on the host", "width", activation_offload_width, members=0),
    Border(
        "the bad case: data, ranks scattered over the nodes",
        "tokens per GPU, behind the backward pass",
        backward_hiding_tokens,
        {"P": MANY},
    ),
)
HIDING: dict[str, Border] = {border.strategy: border for border in _BORDERS}


def link_bandwidths(gpu: str = "h100-sxm") -> dict[str, float]:
    """Bytes/s of a rank: its own link, PCIe, the rings of whole nodes, one 400 Gb/s port.

    A ring over whole nodes of eight uses all eight ports of a node (`Node.ring_bandwidth`); what
    goes to one remote rank, or to ranks that are scattered, uses one.

    >>> {name: beta / 1e9 for name, beta in link_bandwidths().items()}
    {'nvlink4': 450.0, 'dgx-h100': 400.0, 'pcie5-x16': 64.0, 'ib-ndr400': 50.0}
    """
    link, node, host = catalog[gpu].link, catalog[NODE], catalog["pcie5-x16"]
    rings = node.ring_bandwidth(node.gpus)
    return {link.name: link.beta, NODE: rings, host.name: host.beta, node.nic.name: node.nic.beta}


def link_ratios(gpu: str = "h100-sxm") -> dict[str, float]:
    """rho for each of `link_bandwidths`, in FLOP/B, in bf16.

    >>> {name: round(rho) for name, rho in link_ratios().items()}
    {'nvlink4': 2198, 'dgx-h100': 2472, 'pcie5-x16': 15453, 'ib-ndr400': 19780}
    """
    peak = catalog[gpu].peak("bf16")
    return {name: ridge_intensity(peak, beta) for name, beta in link_bandwidths(gpu).items()}


def one_ratio_table(gpu: str = "h100-sxm") -> Table:
    """Every strategy's length, its multiple of rho, and the least length on three kinds of links.

    Out of the node a row uses as many ports as its ring has members in each node; the last column
    says how many. What never leaves the machine has a least length on PCIe alone, and the bad case
    on the network alone.

    >>> one_ratio_table().rows[4]
    ('pipeline', 'width x layers of a stage', '0.083 ρ', '183', '1,288', '1,648', '1')
    """
    device, node, host = catalog[gpu], catalog[NODE], catalog["pcie5-x16"]
    peak = device.peak("bf16")
    rows = []
    for border in HIDING.values():
        bad = border.strategy.startswith("the bad case")
        outside = node.ring_bandwidth(border.members) if border.members else None
        inside = device.link.beta if border.members and not bad else None
        betas = inside, None if bad else host.beta, outside
        least = (f"{border.least(peak / beta):,.0f}" if beta else "" for beta in betas)
        factor = f"{format_quantity(round(border.factor(), 6), '', 2)} ρ"
        rows.append((border.strategy, border.length, factor, *least, str(border.members or "")))
    columns = (
        *("strategy", "length", "at least"),
        f"in the node (`{device.link.name}`)",
        f"`{host.name}`",
        "out of the node",
        f"ports of {format_quantity(node.nic.beta, 'B/s', 2)}",
    )
    return Table("Where communication can hide", columns, tuple(rows))
