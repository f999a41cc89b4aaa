"""The loss and its gradients do not know which documents are packed with which."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from dtlib.foundations import TransformerSpec
from dtlib.models import GPT, gradients, next_token_loss, relative_errors, worst
from dtlib.parallelism import causal_mask, document_mask, document_numbers

SPEC = TransformerSpec("packed", layers=2, hidden=16, heads=4, kv_heads=4, vocab=32)
DRAW = torch.Generator().manual_seed(2)
TEXTS = [torch.randint(32, (length,), generator=DRAW) for length in (17, 3, 5, 9, 2, 12)]
PACKINGS = {
    "in order": [[0, 1], [2, 3], [4, 5]],
    "by length": [[0, 4], [5, 1], [3, 2]],
    "all in one": [[3, 0, 5, 1, 4, 2]],
}


def trained_on(packs, mean_of_means=False, blind=False):
    model, sums, counts = GPT(SPEC, seed=3, dtype=torch.float64), [], []
    for pack in packs:
        lengths = [len(TEXTS[i]) for i in pack]
        tokens, places = torch.cat([TEXTS[i] for i in pack]), torch.arange(sum(lengths))
        own = document_mask(document_numbers(lengths, seq=sum(lengths)))
        mask = (causal_mask if blind else causal_mask & own)(places, places)
        for block in model.blocks:
            block.attention.mix = lambda q, k, v, _, seen=mask: scaled_dot_product_attention(
                q, k, v, attn_mask=seen
            )
        following = tokens.roll(-1)
        following[torch.tensor(lengths).cumsum(0) - 1] = -100
        sums.append(next_token_loss(model(tokens[None]), following[None], "sum"))
        counts.append(int((following != -100).sum()))
    means = [total / count for total, count in zip(sums, counts, strict=True)]
    loss = sum(means) / len(means) if mean_of_means else sum(sums) / sum(counts)
    loss.backward()
    return {"loss": loss.detach(), **gradients(model)}


@pytest.fixture(scope="module")
def alone():
    return trained_on([[i] for i in range(len(TEXTS))])


@pytest.mark.parametrize("packs", PACKINGS.values(), ids=PACKINGS)
def test_any_packing_has_the_same_loss_and_gradients(packs, alone):
    assert worst(relative_errors(trained_on(packs), alone))[1] < 1e-12


def test_sabotage_a_mean_for_each_pack_or_no_document_mask_is_another_gradient(alone):
    packs = PACKINGS["in order"]
    assert worst(relative_errors(trained_on(packs, mean_of_means=True), alone))[1] > 1e-2
    assert worst(relative_errors(trained_on(packs, blind=True), alone))[1] > 1e-2
