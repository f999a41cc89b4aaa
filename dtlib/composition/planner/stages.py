"""What a pipeline's stages have beside their layers, and what replicas exchange: columns."""

import numpy as np

from dtlib.composition.planner.layer import Passes, layer_params
from dtlib.composition.planner.lines import EXCHANGED
from dtlib.formulas.sheet import Given
from dtlib.models.spec import TransformerSpec

STREAM_TOUCHES = 4  # of the stream at the table of tokens: read, written, and both back again
LOGIT_BYTES = 12  # of each logit: 16 bits written, 32 for the loss, 16 and 32 for the gradient


def stage_quantities(passes: Passes) -> dict[str, Given]:
    """Layers of the stages, and the seconds of the tables at both ends."""
    of, spec = passes.layouts, passes.spec
    rate = passes.machine.gpu.hbm_bandwidth * passes.software.kernels.bandwidth_fraction
    first = STREAM_TOUCHES * passes.stream / rate
    logits = passes.tokens * spec.vocab / of.tp
    last = passes.products[2] + passes.products[3] + LOGIT_BYTES * logits / rate
    alone, host = of.pp == 1, passes.software.ends_host
    whole = np.maximum(first + last, host)
    first, last = np.maximum(first, host), np.maximum(last, host)
    return {
        "most_layers": Given(of.most_layers, "", "layers of the largest stage"),
        "first_layers": Given(of.first_layers, "", "layers of the first stage"),
        "last_layers": Given(of.last_layers, "", "layers of the last stage"),
        "tables": Given(np.where(alone, whole, first + last), "s", "tables at both ends"),
        "first_tables": Given(np.where(alone, whole, first), "s", "table of tokens"),
        "last_tables": Given(np.where(alone, whole, last), "s", "head and loss"),
        "hop_time": Given(_hop_time(passes), "s", "one message between stages"),
    }


def _hop_time(passes: Passes) -> np.ndarray:
    """Seconds that a message to the next stage takes a rank; 0 where there is none, or it hides."""
    of, software, machine = passes.layouts, passes.software, passes.machine
    parts = of.sequence_parallel | software.scattered_sends
    n = passes.stream / np.where(parts, of.tp, 1)
    hop = machine.message(n, of.ranks) + software.send_host
    if software.scattered_sends:
        gather = machine.collective("all_gather", passes.stream, of.tp, 1)
        hop = hop + np.where(of.sequence_parallel, 0.0, gather)
    hides = software.overlaps_sends & (of.interleave > 1)
    return np.where((of.pp == 1) | hides, 0.0, hop)


def exchange_quantities(passes: Passes) -> dict[str, Given]:
    """Seconds of the collectives among replicas, and what the optimizer of a rank moves.

    ZeRO's stage 0 reduces all gradients, the others scatter them and gather weights. Experts have
    replicas of their own.
    """
    of, spec, software = passes.layouts, passes.spec, passes.software
    dense, experts = layer_params(spec, of) * of.most_layers / spec.layers
    dense = dense + _end_params(spec, of.pp == 1) / of.tp
    ranks, divided = of.dp * of.cp, of.zero > 0
    stepped = np.where(divided, dense / ranks + experts * of.ep / ranks, dense + experts)
    found = _exchanged(passes, dense, ranks, of.tp)
    if spec.moe:
        of_experts = _exchanged(passes, experts, ranks // of.ep, of.tp * of.ep)
        found |= {f"experts_{name}": entry for name, entry in of_experts.items()}
    overlap = np.where(of.zero < 2, software.overlap, software.ahead)
    return found | {
        "overlap_fraction": Given(
            overlap, "", "share of it that hides", f"profile {software.name!r}"
        ),
        "stepped_bytes": Given(
            software.optimizer_bytes * stepped, "B", "bytes that the optimizer moves", "counted"
        ),
    }


def _end_params(spec: TransformerSpec, alone: np.ndarray) -> np.ndarray:
    """Parameters of the larger end of a pipeline, or of both ends on one stage."""
    parts = spec.parameter_parts()
    first, last = parts.get("embedding", 0) + parts.get("positions", 0), parts.get("head", 0)
    return np.where(alone, first + last, max(first, spec.vocab * spec.hidden))


def _exchanged(passes: Passes, params, ranks, stride) -> dict[str, Given]:
    """Seconds of each collective of some parameters, among ranks that are `stride` apart."""
    of, software = passes.layouts, passes.software
    divided = of.zero > 0
    messages = np.where(divided, software.messages * of.most_layers, 1)

    def time(operation, width):
        n = width * params / messages
        found = passes.machine.collective(operation, n, ranks, stride)
        if software.ports and (of.zero == 3).any():
            few = passes.machine.collective(operation, n, ranks, stride, software.ports)
            found = np.where(of.zero == 3, few, found)
        return messages * found

    seconds = {
        "reduced_time": np.where(divided, 0.0, time("all_reduce", software.gradient_bytes)),
        "scattered_time": np.where(divided, time("reduce_scatter", software.gradient_bytes), 0.0),
        "gathered_time": np.where(divided, time("all_gather", 2), 0.0),
    }
    return {
        name: Given(time, "s", EXCHANGED[name], "collective_time") for name, time in seconds.items()
    }
