"""What a training library costs on the host, and how it goes about a step: named profiles.

A profile says of a library what no machine and no layout knows: how long the host needs to start a
layer's kernels, whether a message between stages stops it, in what width gradients travel, and how
much of their exchange hides. Constants of kernels, which are the same for all, are `Kernels`.
"""

from dataclasses import dataclass, field, replace

from dtlib.formulas.require import is_number, require, require_type

WARP_PEAK = 312e12  # of an A100, the last whose peak warp-level products reach
WARP_SHARE = 0.63  # Luo et al. 2024, of Hopper: warp-level products reach 62.9 % of the peak


@dataclass(frozen=True)
class Kernels:
    """How fast the kernels between the products are: constants that were fitted together.

    - `attention_fraction`: share of the peak that fused attention reaches with long heads.
    - `attention_start`: numbers of a head that a score costs on top: its exponential.
    - `forward_touches`, `backward_touches`: times that a kept byte is written or read in a pass.
    - `bandwidth_fraction`: share of the memory's bandwidth that a kernel reaches, as in products.
    - `sharpness`: of the smooth maximum of the times of host and GPU.
    """

    attention_fraction: float = 0.4
    attention_start: float = 22
    forward_touches: float = 2.5
    backward_touches: float = 2.9
    bandwidth_fraction: float = 0.86
    sharpness: float = 3.5
    grouped_share: float = 0.6


@dataclass(frozen=True)
class Software:
    """A training library, as its steps show it.

    - `layer_host`: seconds that the host needs to start the kernels of a layer's forward pass; of a
      backward pass it needs twice as many.
    - `call_host`: seconds of the host for each collective in a pass.
    - `send_host`: seconds that a message to another stage stops the host.
    - `gradient_bytes`: width of the gradients that replicas exchange.
    - `overlap`: share of an exchange that hides where there is arithmetic to hide under.
    - `scattered_sends`: whether ranks that share a layer send a part each of what they all have, so
      that the receivers must gather it.
    - `slowness`: how many times as long its kernels take, over those of `kernels`.
    - `source`: where the constants come from.
    Raises ValueError for a number below 0 and a share outside 0 to 1.
    """

    name: str
    layer_host: float
    call_host: float
    send_host: float
    gradient_bytes: int = 2
    overlap: float = 0.0
    scattered_sends: bool = False
    ends_host: float = 8e-4
    backward_host: float = 2.0
    slowness: float = 1.0
    unfused: float = 1.0
    warp_attention: bool = True
    sums_locally: bool = True
    every_second: bool = False
    tensor_overlap: float = 0.0
    messages: int = 1
    optimizer_bytes: float = 30
    step_host: float = 0.0
    arrival: float = 3.5e-5
    kernels: Kernels = field(default_factory=Kernels)
    source: str = "fitted"

    def __post_init__(self):
        owner = f"Software {self.name!r}"
        require_type(owner, bool, scattered_sends=self.scattered_sends)
        for name in ("layer_host", "call_host", "send_host", "slowness"):
            value = getattr(self, name)
            good = is_number(value) and value >= 0
            require(good, owner, name, value, "a number of at least 0")
        good = is_number(self.overlap) and 0 <= self.overlap <= 1
        require(good, owner, "overlap", self.overlap, "a share from 0 to 1")
        width = self.gradient_bytes
        require(width in (2, 4), owner, "gradient_bytes", width, "2 or 4, bytes of a number")


_MEGATRON = Software(
    "megatron",
    9.5e-4,
    1.05e-4,
    6e-4,
    4,
    0.0,
    True,
    unfused=1.15,
    warp_attention=False,
    tensor_overlap=0.28,
    ends_host=3.5e-3,
    step_host=0.011,
)
_FSDP = Software("fsdp", 7.3e-4, 6e-5, 3e-4, 4, 0.64, unfused=1.88, sums_locally=False)
software_profiles: dict[str, Software] = {
    profile.name: profile
    for profile in (
        Software(
            "megatron-2021",
            7.6e-4,
            3.6e-5,
            1.15e-3,
            scattered_sends=True,
            slowness=1.05,
            ends_host=2e-4,
        ),
        _MEGATRON,
        Software(
            "deepspeed",
            7.6e-4,
            3.6e-5,
            1.15e-3,
            scattered_sends=True,
            slowness=1.05,
            ends_host=2e-4,
        ),
        Software(
            "nanotron",
            1e-3,
            1.15e-4,
            3e-4,
            4,
            unfused=1.4,
            tensor_overlap=0.4,
            messages=6,
            optimizer_bytes=140,
            step_host=0.02,
        ),
        _FSDP,
        replace(_FSDP, name="torchtitan-eager", every_second=True),
        replace(_FSDP, name="torchtitan", unfused=1.0, every_second=True),
    )
}


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
    require(known is not None, "step_times", "software", software, allowed)
    return known
