"""What the exercises of chapter 19 compare with, found in another way."""

import torch

from dtlib.exercises.chapters.memory.ch19 import KEPT
from dtlib.memory import saved_tensor_bytes


def test_the_listed_bytes_are_those_of_the_meter():
    x, y = (torch.ones(4, 8, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    functions = {
        "tanh(x)": torch.tanh, "3 * x": lambda x: 3 * x, "x.square()": torch.square,
        "x / y": lambda x: x / y, "exp(x) * y": lambda x: x.exp() * y, "x.mean()": torch.mean,
    }  # fmt: skip
    assert {name: saved_tensor_bytes(f, x) / x.numel() for name, f in functions.items()} == KEPT
