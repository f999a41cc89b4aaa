"""On a GPU: copies beside the arithmetic, from and to pinned memory, with the same bits."""

import pytest
import torch
from offload_models import batch_of, model_of, same_bits

from dtlib.memory import (
    DiskStore,
    HostStore,
    OffloadedActivations,
    OffloadedOptimizer,
    OffloadedParameters,
)
from dtlib.models import next_token_loss

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
STORES = {"host": lambda folder: HostStore(), "disk": DiskStore}


def trained(offload=None, steps=3):
    """A model on the GPU after some steps; `offload` is a function that makes a store."""
    model = model_of().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    store = offload() if offload else None
    if store:
        weights = OffloadedParameters(model.blocks, store)
        rest = [[p] for p in model.parameters() if p.numel()]
        units = rest + [layer.parameters for layer in weights.layers]
        optimizer = OffloadedOptimizer(optimizer, store, units=units)
    for step in range(steps):
        tokens, targets = (part.cuda() for part in batch_of(step))
        optimizer.zero_grad()
        if store:
            with OffloadedActivations(store, model):
                loss = next_token_loss(model(tokens), targets)
            loss.backward()
            weights.step(optimizer)
        else:
            next_token_loss(model(tokens), targets).backward()
            optimizer.step()
    if store:
        weights.restore()
        store.close()
    return model


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
def test_all_three_on_a_gpu_have_the_same_bits(make, tmp_path):
    expected = trained()
    assert same_bits(trained(lambda: make(tmp_path)).parameters(), expected.parameters())


def test_the_host_keeps_what_comes_from_a_gpu_pinned_and_long_kernels_are_waited_for():
    a = torch.randn(2048, 2048, device="cuda")
    with HostStore() as store:
        for _ in range(30):
            b = a @ a / 45
            a = b.clone()
        store.put("x", a)  # the products have not run yet
        found = store.get("x").wait()
        assert store._held["x"].is_pinned() and found.is_cuda
        assert torch.equal(found, b)
