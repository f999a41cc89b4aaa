"""What a pipeline's stages have beside their layers, and what replicas exchange: columns."""

import numpy as np

from dtlib.composition.planner.layer import Passes, layer_params
from dtlib.formulas.sheet import Given
from dtlib.models.spec import TransformerSpec

STREAM_TOUCHES = 4  # of the stream at the table of tokens: read, written, and both back again
LOGIT_BYTES = 12  # of each logit: 16 bits written, 32 for the loss, 16 and 32 for the gradient


def stage_quantities(passes: Passes) -> dict[str, Given]:
    """Layers of the stages, and the seconds of the tables at both ends."""
    of, spec = passes.layouts, passes.spec
    most, missing = of.most_layers, of.most_layers * of.pp - spec.layers
    rate = passes.machine.gpu.hbm_bandwidth * passes.software.kernels.bandwidth_fraction
    first = STREAM_TOUCHES * passes.stream / rate
    logits = passes.tokens * spec.vocab / of.tp
    last = passes.products[2] + passes.products[3] + LOGIT_BYTES * logits / rate
    alone, host = of.pp == 1, passes.software.ends_host
    whole = np.maximum(first + last, host)
    first, last = np.maximum(first, host), np.maximum(last, host)
    return {
        "most_layers": Given(most, "", "layers of the largest stage"),
        "first_layers": Given(most - (missing >= 2), "", "layers of the first stage"),
        "last_layers": Given(most - (missing >= 1), "", "layers of the last stage"),
        "tables": Given(np.where(alone, whole, first + last), "s", "tables at both ends"),
        "first_tables": Given(np.where(alone, whole, first), "s", "table of tokens"),
        "last_tables": Given(np.where(alone, whole, last), "s", "head and loss"),
        "hop_time": Given(_hop_time(passes), "s", "one message between stages"),
    }


def _hop_time(passes: Passes) -> np.ndarray:
    """Seconds that a message to the next stage takes a rank; 0 where there is none, or it hides."""
    of, software, machine = passes.layouts, passes.software, passes.machine
    parts = of.sequence_parallel | software.scattered_sends
    chain = of.tp * of.cp * of.dp
    n = passes.stream / np.where(parts, of.tp, 1)
    hop = machine.message(n, chain, chain * of.pp) + software.send_host
    if software.scattered_sends:
        gather = machine.collective("all_gather", passes.stream, of.tp, 1)
        hop = hop + np.where(of.sequence_parallel, 0.0, gather)
    hides = software.overlaps_sends & (of.interleave > 1)
    return np.where((of.pp == 1) | hides, 0.0, hop)


def exchange_quantities(passes: Passes, m: np.ndarray) -> dict[str, Given]:
    """Parameters of the fullest rank, and the seconds that replicas exchange in a step.

    ZeRO's stage 0 reduces all gradients, 1 scatters them and gathers weights, 2 scatters those of
    each micro-batch, 3 gathers weights for each pass as well. Experts have replicas of their own.
    """
    of, spec, software = passes.layouts, passes.spec, passes.software
    dense, experts = layer_params(spec, of) * of.most_layers / spec.layers
    dense = dense + _end_params(spec, of.pp == 1) / of.tp
    ranks = of.dp * of.cp
    comm = _exchange_time(passes, m, dense, ranks, of.tp)
    if spec.moe:
        comm = comm + _exchange_time(passes, m, experts, ranks // of.ep, of.tp * of.ep)
    divided = of.zero > 0
    stepped = np.where(divided, dense / ranks + experts * of.ep / ranks, dense + experts)
    return {
        "stepped_bytes": Given(
            software.optimizer_bytes * stepped, "B", "what the optimizer moves", "counted"
        ),
        "comm": Given(comm, "s", "exchange of the replicas"),
        "overlap_fraction": Given(
            np.where(of.zero < 2, software.overlap, software.ahead), "", "", software.name
        ),
    }


def _end_params(spec: TransformerSpec, alone: np.ndarray) -> np.ndarray:
    """Parameters of the larger end of a pipeline, or of both ends on one stage."""
    parts = spec.parameter_parts()
    first, last = parts.get("embedding", 0) + parts.get("positions", 0), parts.get("head", 0)
    return np.where(alone, first + last, max(first, spec.vocab * spec.hidden))


def _exchange_time(passes: Passes, m, params, ranks, stride) -> np.ndarray:
    """Seconds of the exchange of some parameters by ranks that are `stride` apart."""
    of, software, machine = passes.layouts, passes.software, passes.machine
    messages = np.where(of.zero > 0, software.messages * of.most_layers, 1)

    def time(operation, width, ports=None):
        n = width * params / messages
        return messages * machine.collective(operation, n, ranks, stride, ports)

    whole = time("all_reduce", software.gradient_bytes)
    scatter, gather = time("reduce_scatter", software.gradient_bytes), time("all_gather", 2)
    full = whole
    if (of.zero == 3).any():
        ports = software.ports
        full = time("reduce_scatter", software.gradient_bytes, ports)
        full = m * (full + 2 * time("all_gather", 2, ports))
    stages = [of.zero == 0, of.zero == 1, of.zero == 2]
    return np.select(stages, [whole, scatter + gather, m * scatter + gather], full)
