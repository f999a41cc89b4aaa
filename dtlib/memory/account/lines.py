"""The lines of one rank's account: what is given, and the formulas that it feeds."""

from dtlib.formulas.poly import where
from dtlib.formulas.sheet import Given, Line, line
from dtlib.memory.account.allocator import (
    ahead_buffer_bytes,
    gathered_stream_bytes,
    output_bytes,
    ring_block_bytes,
)
from dtlib.memory.account.asked import Asked
from dtlib.memory.account.formulas import gathered_bytes, weight_bytes
from dtlib.memory.account.layers import (
    kept_layer_bytes,
    repeated_token_bytes,
    segment_work_bytes,
    stage_kept_bytes,
    token_bytes,
)
from dtlib.memory.account.state import (
    held_gradient_bytes,
    held_optimizer_bytes,
    held_weight_bytes,
)
from dtlib.parallelism.pipeline import interleaved_held_count, one_f_one_b_peak_count

NODE_RANKS = 8  # GPUs of a node
_COUNTED = "counted by the spec"
_STATE = ("weights", "gradients", "passing", "main", "master", "moments")
_HELD = {"weights": held_weight_bytes, "gradients": held_gradient_bytes}
_LABELS = {
    "weights": "weights", "gradients": "gradients", "passing": "gradients of one backward pass",
    "main": "gradients in 32 bits", "master": "master copy", "moments": "moments",
}  # fmt: skip


def given_quantities(asked: Asked) -> dict[str, Given | float]:
    """The counts that several lines share."""
    spec, layout = asked.spec, asked.layout
    given = {
        "seq": asked.seq,
        "micro_batch": layout.micro_batch,
        "tp": layout.tp,
        "cp": layout.cp,
        "p": layout.pp,
        "rank": asked.place,
        "hidden": spec.hidden,
        "vocab": spec.vocab,
        "kv_heads": spec.kv_heads,
        "stream_ranks": asked.stream_ranks,
        "segment": asked.segment,
        "zero": layout.zero,
        "dp": Given(layout.dp * layout.cp, "", "ranks that hold the same weights"),
    }
    if asked.gpu:
        name, source = asked.gpu.name, asked.gpu.source
        given["hbm"] = Given(asked.gpu.hbm_bytes, "B", f"memory of one {name}", source)
    return given


def state_lines(asked: Asked, given: dict, lines: dict) -> list[str]:
    """Adds a line for every tensor of the recipe; returns the names."""
    layout, recipe, held = asked.layout, asked.recipe, asked.params
    given["rank_params"] = Given(held.shared, "", "parameters of one rank", _COUNTED)
    inside = held.layers + held.experts
    given["layer_params"] = Given(inside, "", "parameters of its layers", _COUNTED)
    groups = [("", "rank_params", "dp")]
    if asked.structure.mixed:
        given["expert_params"] = Given(held.experts, "", "parameters of its experts", _COUNTED)
        copies = layout.dp * layout.cp // layout.ep
        given["expert_dp"] = Given(copies, "", "ranks with these experts")
        groups.append(("expert_", "expert_params", "expert_dp"))
    for part in _STATE:
        width = getattr(recipe, part)
        if width:
            given[f"{part}_width"] = Given(width, "B", f"{_LABELS[part]}, each", recipe.source)
    names = []
    for prefix, params, dp in groups:
        for part in _STATE:
            if f"{part}_width" not in given:
                continue
            feeds = {"params": params, "element_bytes": f"{part}_width", "dp": dp}
            if part == "passing":
                feeds["zero"] = 0
            label = f"experts' {_LABELS[part]}" if prefix else _LABELS[part]
            formula = _HELD.get(part, held_optimizer_bytes)
            lines[prefix + part] = line(formula, label=label, **feeds)
            names.append(prefix + part)
    return names


def activation_lines(asked: Asked, given: dict, lines: dict) -> list[str]:
    """Adds what the layers keep, and what a policy makes them repeat; returns the names."""
    _under_way(asked, given, lines)
    names, repeated, structure = [], {}, asked.structure
    for prefix, experts, layers in _kinds(asked):
        options = {"experts": experts, "flash": structure.flash} | _kernels(asked)
        policy = {"recompute": structure.recompute}
        given[f"{prefix}layers"] = Given(layers, "", "layers with experts" if experts else "layers")
        layer, again = f"{prefix}layer", f"{prefix}layer_again"
        _layer(given, lines, layer, token_bytes(asked.spec, **options, **policy))
        where = " in layers with experts" if prefix else ""
        lines[f"{prefix}activations"] = line(
            stage_kept_bytes, label=f"activations under way{where}", layers=f"{prefix}layers",
            layer_bytes=layer,
        )  # fmt: skip
        names.append(f"{prefix}activations")
        if structure.recompute != "none" and (structure.dense or structure.mixed):
            _layer(given, lines, again, repeated_token_bytes(asked.spec, **options, **policy))
            repeated[f"{prefix}again"] = line(
                segment_work_bytes, label="repeated before its backward pass",
                repeated_bytes=again, layer_bytes=layer,
            )  # fmt: skip
    if repeated:  # one layer at a time: of two kinds, the one that needs more
        lines["again"] = repeated[asked.fullest(repeated, given, lines)]
        names.append("again")
    return names


def _kinds(asked: Asked) -> list[tuple[str, bool, int]]:
    """Prefix of the names, whether experts, and how many layers, of each kind there is."""
    (dense, mixed), structure = asked.kinds, asked.structure
    if structure.dense and structure.mixed:
        return [("", False, dense), ("expert_", True, mixed)]
    return [("", structure.mixed, dense + mixed)]


def _kernels(asked: Asked) -> dict:
    """What a program's kernels do without, and what they keep besides."""
    if asked.program is None:
        return {}
    travels = asked.program.all_to_all and asked.structure.shares_sequence
    return {"fused": asked.program.fused, "travels": travels}


def _under_way(asked: Asked, given: dict, lines: dict) -> None:
    """Adds how many micro-batches the rank holds at most."""
    layout, label = asked.layout, "micro-batches under way"
    if asked.in_flight is not None:
        given["in_flight"] = asked.in_flight
        return
    if asked.structure.interleaves:
        given["v"], most, count = layout.interleave, 2 * layout.pp, interleaved_held_count
    else:
        most, count = layout.pp, one_f_one_b_peak_count
    most = most if asked.micro_batches is None else asked.micro_batches
    given["m"] = Given(most, "", "micro-batches that can be under way")
    lines["in_flight"] = line(count, label=label)


def _layer(given, lines, name, found) -> None:
    """A line for one kind of layer, fed by the four kinds of bytes of `found`."""
    feeds = {
        "stream_bytes": (found.stream, "bytes between the matrices, for each token"),
        "split_bytes": (found.split, "bytes of heads and inner numbers, for each token"),
        "pair_bytes": (found.pair, "bytes of scores, for each pair of tokens"),
        "key_bytes": (found.keys, "bytes of keys and values, for each token"),
    }
    for feed, (value, label) in feeds.items():
        given[f"{name}_{feed}"] = Given(value, "B", label, _COUNTED)
    what = "what it does not keep" if name.endswith("again") else "kept by one rank"
    kind = "a layer with experts" if name.startswith("expert") else "one layer"
    label = f"{kind} for one micro-batch, {what}"
    lines[name] = line(kept_layer_bytes, label=label, **{f: f"{name}_{f}" for f in feeds})


def buffer_lines(asked: Asked, given: dict, lines: dict) -> list[str]:
    """Adds logits, and what communication needs; returns the names."""
    found, structure = {}, asked.structure
    if structure.last:
        found |= logit_lines(asked, given)
    found |= gathered_lines(asked, given)
    if structure.shares_stream:
        found["sequence"] = line(gathered_stream_bytes, label="gathered stream")
    if structure.shares_sequence:
        found |= ring_lines(asked, given)
    found |= ahead_lines(asked, given)
    lines |= found
    return list(found)


def ahead_lines(asked: Asked, given: dict) -> dict[str, Line]:
    """Messages that the allocator cannot use again yet."""
    allocator, structure = asked.allocator, asked.structure
    if not (allocator and structure.shares_stream and structure.alone):
        return {}
    given["ahead_bytes"] = Given(allocator.ahead_bytes, "B", "", allocator.source)
    layers = sum(asked.kinds)
    if allocator.ahead_layers is not None:
        layers = where(asked.layout.tp <= NODE_RANKS, *allocator.ahead_layers)
    given["all_layers"] = Given(layers, "", "layers")
    label = "messages not yet given back"
    return {"ahead": line(ahead_buffer_bytes, label=label, layers="all_layers")}


def workspace_lines(given: dict, threads: int, size: float, source: str) -> dict[str, Line]:
    """What libraries of products keep for good, each thread's own."""
    given["threads"] = Given(threads, "", "threads that multiply", source)
    given["workspace_size"] = Given(size, "B", "one thread's workspace", source)
    feeds = {"params": "threads", "element_bytes": "workspace_size"}
    return {"workspaces": line(weight_bytes, label="workspaces of products", **feeds)}


def logit_lines(asked: Asked, given: dict) -> dict[str, Line]:
    """What the head reads and returns."""
    given["logit_width"] = Given(asked.logit_bytes, "B", "bytes of one word's logit", "counting")
    label = "logits and their gradient"
    return {"logits": line(output_bytes, label=label, element_bytes="logit_width")}


def gathered_lines(asked: Asked, given: dict) -> dict[str, Line]:
    """The weights of whole layers, where they are gathered."""
    structure = asked.structure
    if not (structure.gathers and (structure.dense or structure.mixed)):
        return {}
    given["stage_layers"] = Given(sum(asked.kinds), "", "layers of the stage")
    feeds = {"params": "layer_params", "layers": "stage_layers", "element_bytes": "weights_width"}
    return {"gathered": line(gathered_bytes, label="gathered layers", **feeds)}


def ring_lines(asked: Asked, given: dict) -> dict[str, Line]:
    """Keys and values of other ranks."""
    keys = token_bytes(asked.spec, experts=bool(asked.spec.expert_layers)).keys
    given["ring_key_bytes"] = Given(keys, "B", "keys and values of one token", _COUNTED)
    label = "keys and values that travel"
    return {"ring": line(ring_block_bytes, label=label, key_bytes="ring_key_bytes")}
