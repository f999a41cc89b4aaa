"""The lines that a known program adds: what stays ready, and the moment at which most is there.

What the layers keep is there twice in full: when the head returns its gradients, and when the last
layer's backward pass begins. A rank with a head is asked which of the two needs more.
"""

from dtlib.formulas.sheet import Given, Line, line, total
from dtlib.memory.account.asked import Asked
from dtlib.memory.account.formulas import weight_bytes
from dtlib.memory.account.lines import (
    ahead_lines,
    gathered_lines,
    logit_lines,
    ring_lines,
    workspace_lines,
)
from dtlib.memory.account.programs import backward_work_bytes, streams_bytes


def standing_lines(asked: Asked, given: dict, lines: dict) -> list[str]:
    """Adds placeholders and workspaces, which stay from the first step on; returns the names."""
    program, structure = asked.program, asked.structure
    source = program.source
    given["placeholder_width"] = Given(program.placeholder_bytes, "B", "placeholder's", source)
    given["shape_params"] = Given(asked.shape_params, "", "numbers in one matrix of each shape")
    lines["placeholders"] = line(
        weight_bytes, label="one gradient of each shape of weights", params="shape_params",
        element_bytes="placeholder_width",
    )  # fmt: skip
    libraries = 1 + structure.last + structure.mixed * program.expert_streams
    lines |= workspace_lines(given, libraries, program.workspace, source)
    return ["placeholders", "workspaces"]


def moment_lines(asked: Asked, given: dict, lines: dict) -> list[str]:
    """Adds what is there besides at the fullest moment; returns the names."""
    structure, given["full"] = asked.structure, Given(1, "", "ranks that divide a gathered tensor")
    found = gathered_lines(asked, given) | ahead_lines(asked, given)
    if structure.shares_sequence and not asked.program.all_to_all:
        found |= ring_lines(asked, given)
    if not structure.first:
        label = "gradient that was sent back before"
        found["sent"] = line(streams_bytes, label=label, streams=1)
    lines |= found
    moments = {"backward": _backward(asked, given)}
    if "again" in lines:
        moments["backward"]["again"] = lines["again"]
    if structure.last:
        moments["head"] = _head(asked, given)
    parts = {name: part for moment in moments.values() for name, part in moment.items()}
    candidates = {name: total(*moment) for name, moment in moments.items()}
    fullest = moments[asked.fullest(candidates, given, lines | parts)]
    lines |= fullest
    return [*found, *fullest]


def _backward(asked: Asked, given: dict) -> dict[str, Line]:
    """What the backward pass of the last layer needs."""
    spec, structure = asked.spec, asked.structure
    widths = [spec.ffn] * structure.dense
    if structure.mixed:
        widths.append((spec.moe.active + spec.moe.shared) * spec.moe.ffn)
    inner = (4 if spec.gated else 2) * max(widths, default=0)
    given["inner_bytes"] = Given(inner, "B", "gradients of one token's inner numbers", "counting")
    streams = 2 if structure.shares_stream else 0
    label = "gradients inside the last layer"
    return {"work": line(backward_work_bytes, label=label, streams=streams)}


def _head(asked: Asked, given: dict) -> dict[str, Line]:
    """What the head needs: logits, the gradient of what it reads, and of its weights."""
    found = logit_lines(asked, given)
    found["head_stream"] = line(streams_bytes, label="gradient of the head's input", streams=1)
    if asked.structure.shares_stream:
        found["head_gathered"] = line(
            streams_bytes, label="the head's input and its gradient, gathered", streams=2,
            stream_ranks="full",
        )  # fmt: skip
    numbers = asked.spec.hidden * asked.spec.vocab // asked.layout.tp
    given["head_params"] = Given(numbers, "", "parameters of the head")
    found["head_gradient"] = line(
        weight_bytes, label="gradient of the head", params="head_params",
        element_bytes="placeholder_width",
    )  # fmt: skip
    return found
