"""A small GPT to offload, its data, and stores that break one rule each."""

import torch

from dtlib.foundations import TransformerSpec
from dtlib.memory import LateStore
from dtlib.models import GPT, next_token_loss

SPEC = TransformerSpec("small", layers=5, hidden=16, heads=4, vocab=29, norm="rms", gated=True)


def model_of(dtype=torch.float32, spec=SPEC):
    return GPT(spec, seed=0, dtype=dtype)


def batch_of(step: int):
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(SPEC.vocab, (2, 9), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


def loss_of(model, step: int = 0):
    tokens, targets = batch_of(step)
    return next_token_loss(model(tokens), targets)


def bits(tensors) -> list[torch.Tensor]:
    return [
        tensor.detach().contiguous().reshape(-1).view(torch.uint8).clone() for tensor in tensors
    ]


def same_bits(found, expected) -> bool:
    found, expected = list(found), list(expected)
    assert len(found) == len(expected) > 0
    pairs = zip(bits(found), bits(expected), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


class ForgetsBuffers(LateStore):
    """A slot reused too early: it fetches into a buffer whose last contents are not out yet."""

    def get(self, key, into=None, after=()):
        return super().get(key, into)


class HandsOutEarly(LateStore):
    """A prefetch that hands out what is still being filled: waiting for a fetch does not wait.

    A new tensor has zeros until it is filled, so that what is computed from it is a number.
    """

    def get(self, key, into=None, after=()):
        if into is None:
            shape, dtype, device = self.kind(key)
            into = torch.zeros(shape, dtype=dtype, device=device)
        transfer = super().get(key, into, after)
        transfer.wait = lambda: transfer._tensor
        return transfer
