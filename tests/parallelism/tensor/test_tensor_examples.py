"""Random models and layers, divided over random groups of ranks, equal one process.

Functions that run on ranks import what they need themselves. Each rank judges a whole list of
examples, so that one run of the ranks judges them all.
"""

import pytest
import torch
from hypothesis import strategies as st

from dtlib.foundations import TransformerSpec
from dtlib.runtime import launch

GROUPS = [(0, 1, 2, 3), (1, 2, 3), (1, 3), (2, 3), (3,)]
EXACT, IN_BF16 = 1e-12, 0.15  # a forgotten sum is off by about a half or more


@pytest.fixture(scope="module")
def four():
    with launch(4, timeout=240) as ranks:
        yield ranks


@st.composite
def models(draw):
    """A GPT of odd sizes, the ranks that divide it, and what is done to it before its gradients."""
    members = draw(st.sampled_from(GROUPS))
    P = len(members)
    heads = P * draw(st.integers(1, 3))
    fits = [k for k in range(1, heads + 1) if heads % k == 0 and max(P, k) % min(P, k) == 0]
    positions = draw(st.sampled_from([0, 13]))
    sequence_parallel = draw(st.booleans())
    bias = draw(st.booleans())
    spec = TransformerSpec(
        "random",
        layers=draw(st.integers(1, 2)),
        hidden=draw(st.sampled_from([5, 6, 9])),
        heads=heads,
        vocab=P * draw(st.sampled_from([3, 5, 7])),
        ffn=P * draw(st.sampled_from([1, 3, 5])),
        kv_heads=draw(st.sampled_from(fits)),
        head_dim=draw(st.sampled_from([1, 3])) if positions else 2,
        gated=draw(st.booleans()),
        tied=draw(st.booleans()),
        norm=draw(st.sampled_from(["layer", "rms"])),
        bias=bias,
        qkv_bias=draw(st.booleans()),
        positions=positions,
    )
    return {
        "members": members,
        "spec": spec,
        "sequence_parallel": sequence_parallel,
        "sequences": draw(st.integers(1, 3)),
        "tokens": P * draw(st.integers(1, 3)) if sequence_parallel else draw(st.integers(1, 9)),
        "passes": draw(st.integers(1, 2)),
        "reduction": draw(st.sampled_from(["mean", "sum"])),
        "frozen": draw(st.sampled_from([(), ("embedding",), ("norm", "out"), ("key", "blocks.0")])),
        "thawed": draw(st.booleans()),
        "then": draw(st.sampled_from(["as it is", "copied", "assigned", "checkpointed"])),
        "autocast": draw(st.booleans()) and draw(st.booleans()),
    }


def trained(model, frozen, to=False):
    for name, parameter in model.named_parameters():
        if any(part in name for part in frozen):
            parameter.requires_grad_(to)


def two_models(example, group, dtype, sabotage):
    """The whole model and the divided one, after what the example does to it."""
    from copy import deepcopy

    from dtlib.models import GPT
    from dtlib.parallelism import tensor_parallel

    whole = GPT(example["spec"], seed=3, dtype=dtype)
    trained(whole, example["frozen"])
    divided = tensor_parallel(whole, group, example["sequence_parallel"])
    if sabotage:
        sabotage(divided)
    if example["then"] == "copied":
        divided = deepcopy(divided)
    if example["then"] == "assigned":
        state = {name: tensor.clone() for name, tensor in divided.state_dict().items()}
        divided.load_state_dict(state, assign=True)
        trained(divided, example["frozen"])
        if example["spec"].tied:
            divided.head.weight = divided.embedding.weight
    if example["thawed"]:
        for model in (whole, divided):
            trained(model, example["frozen"], to=True)
    return whole, divided


def model_errors(examples, sabotage=None):
    """On a rank: for each example the largest error of loss, logits and gradients, and its name."""
    from contextlib import nullcontext

    import torch.distributed as dist
    from torch.utils.checkpoint import checkpoint

    from dtlib.models import gradients, next_token_loss, relative_errors, worst
    from dtlib.parallelism import gather_slices, vocab_parallel_cross_entropy
    from dtlib.parallelism.tensor.model import cut_of

    groups = {
        members: dist.new_group(members) for members in sorted({e["members"] for e in examples})
    }

    def judge(example):
        spec, group, P = example["spec"], groups[example["members"]], len(example["members"])
        rank = dist.get_rank(group)
        dtype = torch.float32 if example["autocast"] else torch.float64
        cast = torch.autocast("cpu", torch.bfloat16) if example["autocast"] else nullcontext()
        generator = torch.Generator().manual_seed(7)
        shape = (2, example["passes"], example["sequences"], example["tokens"])
        batches = torch.randint(spec.vocab, shape, generator=generator)
        batches[1, :, 0, 0] = -100 if example["sequences"] * example["tokens"] > 1 else 0
        whole, divided = two_models(example, group, dtype, sabotage)
        run = divided
        if example["then"] == "checkpointed":
            run = lambda tokens: checkpoint(divided, tokens, use_reentrant=False)  # noqa: E731
        for tokens, targets in zip(*batches, strict=True):
            with cast:
                logits, own = whole(tokens), run(tokens)
                loss = next_token_loss(logits, targets, example["reduction"])
                found = vocab_parallel_cross_entropy(own, targets, group, example["reduction"])
            loss.backward()
            found.backward()
        assert own.dtype == logits.dtype
        expected = {
            name: cut_of(name, spec.kv_heads, P).part(gradient, rank, P)
            for name, gradient in gradients(whole).items()
        }
        results = gradients(divided) | {"loss": found, "logits": gather_slices(own, group, -1)}
        expected |= {"loss": loss, "logits": logits}
        if not example["autocast"]:
            return worst(relative_errors(results, expected))
        assert set(results) == set(expected)
        sizes = {name: float(g.detach().abs().max()) for name, g in expected.items()}
        most = max(size for name, size in sizes.items() if name not in ("loss", "logits"))
        gaps = {
            name: float((results[name] - g).detach().abs().max()) for name, g in expected.items()
        }
        scales = {name: sizes[name] if name in ("loss", "logits") else most for name in gaps}
        return worst({name: float(gap) / scales[name] for name, gap in gaps.items()})

    return [
        judge(example) if dist.get_rank() in example["members"] else ("not a member", 0.0)
        for example in examples
    ]


def test_any_divided_model_has_the_loss_logits_and_gradients_of_one_process(four, examples):
    drawn = examples(models(), 60)
    for errors in four.run(model_errors, drawn):
        for example, (name, error) in zip(drawn, errors, strict=True):
            assert error <= (IN_BF16 if example["autocast"] else EXACT), (name, error, example)


def forget_norms(model):
    """Sabotage: with a divided stream, the gradients of norms are those of a rank's own tokens."""
    for block in model.blocks:
        block.attention_norm.lead_in = lambda weight: weight


def keep_own_keys(model):
    """Sabotage: key heads that ranks share are taken for each one's own."""
    from dtlib.parallelism.tensor.layers import Cut

    for block in model.blocks:
        block.attention.key.cut = Cut(0)


@pytest.mark.parametrize(
    ("sabotage", "hits"),
    [
        (forget_norms, lambda e: e["sequence_parallel"]),
        (keep_own_keys, lambda e: e["spec"].kv_heads < len(e["members"])),
    ],
)
def test_sabotage_what_is_not_added_up_is_seen_in_the_examples(four, examples, sabotage, hits):
    plain = {"then": "as it is", "frozen": (), "autocast": False}
    drawn = [e | plain for e in examples(models(), 60) if len(e["members"]) > 1]
    drawn = [e for e in drawn if e["tokens"] > 1 and hits(e)][:4]
    assert len(drawn) == 4
    for number, errors in enumerate(four.run(model_errors, drawn, sabotage)):
        for example, (_, error) in zip(drawn, errors, strict=True):
            assert error > 1e-6 or number not in example["members"], example
