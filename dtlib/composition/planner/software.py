"""What a training library costs on the host, and how it goes about a step: named profiles.

A profile says of a library what no machine and no layout knows: how long the host needs to start a
layer's kernels, whether a message between stages stops it, in what width gradients travel, how much
of their exchange hides. What is the same for all of them are `Kernels`.

Constants were fitted once, together, on published step times (`benchmarks/published_times.py`), and
there is one set of them for all tables:

    megatron-2021, deepspeed   Narayanan et al. 2021 and vTrain's runs on A100s, which differ in the
                               exchange of ZeRO 3 alone
    megatron                   Megatron-LM and Megatron-Bridge on H100, B200 and GB200, from 2025 on
    nanotron                   the Ultra-Scale Playbook's runs without a pipeline
    fsdp                       MosaicML's llm-foundry on A100 and H100
    torchtitan                 as fsdp; compiled, or kernel by kernel (torchtitan-eager)

Fitted anew to one half of each table, from a start that was 8 to 33 % off, such constants are off
by 3 to 10 % on the other half, where these, which saw all, are off by 0.1 to 9 %
(`benchmarks/composition/planner_fit.py`). No constant was fitted to the runs of BLOOM, of ZeRO 3
and of Korthikanti et al. 2023 in the tests; that DeepSpeed's rings of ZeRO 3 use one port was read
off those runs.
"""

from dataclasses import dataclass, replace

from dtlib.formulas.require import is_number, require, require_count, require_type

WARP_PEAK = 312e12  # of an A100, the last whose peak warp-level products reach
WARP_SHARE = 0.63  # Luo et al. 2024, of Hopper: warp-level products reach 62.9 % of the peak


@dataclass(frozen=True)
class Kernels:
    """How fast the kernels beside the products are, on every GPU and in every library.

    - `attention_fraction`: share of the peak that fused attention reaches with long heads.
    - `attention_start`: numbers of a head for whose products a score's exponential takes as long.
    - `forward_touches`, `backward_touches`: times that a kept byte is written or read in a pass.
      Counted over the kernels of a layer, at full bandwidth, they are 1.6 and 2.2: these kernels
      reach less of it than products do.
    - `bandwidth_fraction`: share of the memory's bandwidth that is counted with, that of products.
    - `sharpness`: of the smooth maximum of the times of host and GPU.
    - `grouped_share`: share of the pace of plain products that those of many experts reach.
    - `arrival`: seconds between the ranks of a layer, of which each collective awaits the last.
    """

    attention_fraction: float = 0.4
    attention_start: float = 21
    forward_touches: float = 2.5
    backward_touches: float = 2.9
    bandwidth_fraction: float = 0.86
    sharpness: float = 3.5
    grouped_share: float = 0.6
    arrival: float = 3.5e-5


@dataclass(frozen=True, kw_only=True)
class Software:
    """A training library, as its steps show it.

    Seconds of the host:
    - `layer_host`: to start the kernels of a layer's forward pass; a backward pass takes two.
    - `call_host`: for each collective in a layer's pass.
    - `send_host`: for which a message to another stage stops a rank.
    - `ends_host`: for each micro-batch at the tables; `step_host`: once in a step.
    What it does:
    - `gradient_bytes`: width of the gradients that are added up and exchanged.
    - `sums_locally`: whether a rank adds up the gradients of its micro-batches whole.
    - `messages`: collectives for a layer in an exchange that divides the state (ZeRO 1 to 3).
    - `ports`: ports of a node that the rings of ZeRO 3 use; None for all.
    - `scattered_sends`: whether ranks that share a layer send a part each of what they all have, so
      that the receivers must gather it.
    - `overlaps_sends`: whether messages between stages hide where stages interleave.
    - `every_second`: whether "selective" computes every second product again, with all that lies
      between products, instead of the core of attention.
    - `warp_attention`: whether attention is made of warp-level products (FlashAttention-2).
    How well:
    - `overlap`: share of an exchange that hides where there is arithmetic to hide under, and
      `ahead`, the same where every micro-batch exchanges (ZeRO 2 and 3), which is asked for ahead.
    - `tensor_overlap`: share of the collectives within layers that hides.
    - `unfused`: how many times as often its kernels touch a byte, over `Kernels`.
    - `slowness`: how many times as long its products take, over those that are measured alone.
    - `optimizer_bytes`: memory traffic of the optimizer for each parameter. A fused step reads and
      writes state, gradient and weight once, 4 + 2 x 12 + 2 bytes.
    What its ranks hold, for `rank_memories`:
    - `recipe`, of its model state; `program`, that of its kernels, or None for plain ones.
    Raises ValueError for a number below 0 and a share outside 0 to 1, TypeError for a flag that is
    no bool.
    """

    name: str
    layer_host: float
    call_host: float
    send_host: float
    ends_host: float
    step_host: float = 0.0
    gradient_bytes: int = 4
    sums_locally: bool = True
    messages: int = 1
    ports: int | None = None
    scattered_sends: bool = False
    overlaps_sends: bool = False
    every_second: bool = False
    warp_attention: bool = True
    overlap: float = 0.0
    ahead: float = 0.64
    tensor_overlap: float = 0.0
    unfused: float = 1.0
    slowness: float = 1.0
    optimizer_bytes: float = 30
    recipe: str = "mixed"
    program: str | None = None
    kernels: Kernels = Kernels()

    def __post_init__(self):
        owner = f"Software {self.name!r}"
        flags = [name for name, kind in type(self).__annotations__.items() if kind is bool]
        require_type(owner, bool, **{name: getattr(self, name) for name in flags})
        require_count(owner, messages=self.messages, ports=self.ports or 1)
        for name in _NUMBERS:
            value = getattr(self, name)
            good = is_number(value) and value >= 0
            require(good, owner, name, value, "a number of at least 0")
        for name in ("overlap", "ahead", "tensor_overlap"):
            share = getattr(self, name)
            require(is_number(share) and 0 <= share <= 1, owner, name, share, "a share from 0 to 1")
        width = self.gradient_bytes
        require(width in (2, 4), owner, "gradient_bytes", width, "2 or 4, bytes of a number")


_NUMBERS = (
    "layer_host", "call_host", "send_host", "ends_host", "step_host", "unfused", "slowness",
    "optimizer_bytes",
)  # fmt: skip
_MEGATRON_2021 = Software(
    name="megatron-2021", layer_host=7.6e-4, call_host=4.3e-5, send_host=1.15e-3, ends_host=2e-4,
    gradient_bytes=2, scattered_sends=True, slowness=1.05,
)  # fmt: skip
_FSDP = Software(
    name="fsdp", layer_host=7.3e-4, call_host=6e-5, send_host=3e-4, ends_host=8e-4,
    step_host=1.4e-3, sums_locally=False, overlap=0.64, unfused=1.88,
)  # fmt: skip
_PROFILES = (
    _MEGATRON_2021,
    Software(
        name="megatron", layer_host=9.5e-4, call_host=1e-4, send_host=4.2e-4, ends_host=4.2e-3,
        step_host=0.0104, scattered_sends=True, overlaps_sends=True, warp_attention=False,
        overlap=0.8, tensor_overlap=0.34, unfused=1.15, recipe="32-bit sums", program="megatron",
    ),
    replace(_MEGATRON_2021, name="deepspeed", ports=1),
    Software(
        name="nanotron", layer_host=1.05e-3, call_host=8.6e-5, send_host=3e-4, ends_host=8e-4,
        step_host=0.007, messages=6, tensor_overlap=0.42, unfused=1.75, optimizer_bytes=145,
        recipe="passing",
    ),
    _FSDP,
    replace(_FSDP, name="torchtitan", unfused=1.0, every_second=True),
    replace(_FSDP, name="torchtitan-eager", every_second=True),
)  # fmt: skip
software_profiles: dict[str, Software] = {profile.name: profile for profile in _PROFILES}


def software_named(software: "str | Software") -> Software:
    """The profile of a name, or the one that is given.

    Raises ValueError for a name that no profile has.

    >>> software_named("megatron").gradient_bytes
    4
    """
    if isinstance(software, Software):
        return software
    known = software_profiles.get(software) if isinstance(software, str) else None
    allowed = f"a Software, or one of {', '.join(software_profiles)}"
    require(known is not None, "a step", "software", software, allowed)
    return known
