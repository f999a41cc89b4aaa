"""A small GPT trained with factors of few bits: `precision-curves` and `precision-gradients`.

    python -m benchmarks.efficiency.precision_curves

A few minutes of one core. All runs read the same windows of a language whose entropy is known, so
curves are compared step by step on the same text. `precision-curves` has the mean loss of each ten
steps; `precision-gradients`, how many entries of the gradients at the outputs of all linear layers
have which power of two, at one step of the run in fp32.
"""

from collections import Counter

import torch

from dtlib import recordings
from dtlib.efficiency import BF16, E4M3, E5M2, Recipe, round_products
from dtlib.models.gpt import GPT
from dtlib.models.spec import TransformerSpec
from dtlib.scaling_laws.grid.language import ZipfWords
from dtlib.scaling_laws.grid.windows import SEQ, Windows, window_loss

SPEC = TransformerSpec("small", 2, 64, 4, 33, norm="rms", bias=False, positions=SEQ)
STEPS, WINDOWS, RATE, LOOK = 240, 32, 3e-3, 100
RECIPES = {
    "fp32": (Recipe(None), 0),
    "fp32, other weights": (Recipe(None), 1),
    "bf16": (Recipe(BF16), 0),
    "E4M3, tiles of 32": (Recipe(E4M3, "tile", 32), 0),
    "E4M3, one scale": (Recipe(E4M3, "tensor"), 0),
    "E4M3, no scale": (Recipe(E4M3), 0),
    "E5M2, no scale": (Recipe(E5M2), 0),
}


def powers(module, given, gradients) -> None:
    """Count the powers of two of a gradient; zeros under "zero"."""
    (gradient,) = gradients
    found = torch.where(gradient == 0, torch.nan, gradient.abs().log2().floor())
    module.seen.update("zero" if p != p else int(p) for p in found.flatten().tolist())


def train(recipe: Recipe, seed: int, look: Counter | None = None) -> list[float]:
    """Mean losses of each ten steps; `look` is filled at one of the steps."""
    model = round_products(GPT(SPEC, seed), recipe)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    windows, losses = Windows(ZipfWords(), seed=1), []
    for step in range(STEPS):
        hooks = watch(model, look) if look is not None and step == LOOK else []
        loss = window_loss(model, windows.read(step * WINDOWS, WINDOWS))
        optimizer.zero_grad()
        loss.backward()
        for hook in hooks:
            hook.remove()
        optimizer.step()
        losses.append(loss.item())
    return [sum(losses[i : i + 10]) / 10 for i in range(0, STEPS, 10)]


def watch(model, look: Counter) -> list:
    """Count at every linear layer of the blocks."""
    hooks = []
    for layer in model.blocks.modules():
        if hasattr(layer, "recipe"):
            layer.seen = look
            hooks.append(layer.register_full_backward_hook(powers))
    return hooks


def measure() -> None:
    """Train all and write both recordings."""
    torch.set_num_threads(1)
    look: Counter = Counter()
    curves = {}
    for name, (recipe, seed) in RECIPES.items():
        curves[name] = train(recipe, seed, look if name == "fp32" else None)
        print(f"{name}: {curves[name][-1]:.4f}", flush=True)
    about = {"params": SPEC.params(), "steps": STEPS, "tokens_per_step": WINDOWS * SEQ}
    recordings.save("precision-curves", curves, unit="nats per letter", rate=RATE, **about)
    counts = {str(power): [count] for power, count in sorted(look.items(), key=str)}
    recordings.save("precision-gradients", counts, unit="entries", step=LOOK, **about)


if __name__ == "__main__":
    measure()
