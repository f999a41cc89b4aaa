"""The micro-lab's task, learnt by ranks that meet in every step, and by ranks that meet seldom.

All ranks are in this process. What a meeting takes follows from its bytes, and is not measured.

local-steps-race    labels "every step", "mean, every 20" and so: the loss of each step, of ranks on
                    their own sentences, averaged over ranks and some steps; about it:
                    bytes that a rank sends in a run, and the share of right answers

    python -m benchmarks.efficiency.local_steps_race     (two minutes of one core)
"""

import torch
from torch.nn import functional as F

from dtlib import recordings
from dtlib.efficiency import DiLoCo, LocalSGD, TwoLevel, WireMeter, meet
from dtlib.micro_lab.runs import build, load, rows_of, share_right

RANKS, STEPS, SHOWN, BATCH, RATE = 4, 160, 8, 32, 3e-4


def lane_of(name: str, model) -> TwoLevel:
    """The optimizer of one rank; each has moments of its own."""
    inner = torch.optim.AdamW(model.parameters(), lr=RATE)
    if name.startswith("DiLoCo"):
        return DiLoCo(inner, None, every=20)
    return LocalSGD(inner, None, every=1 if name == "every step" else 20)


LANES = ("every step", "mean, every 20", "DiLoCo, every 20")


def learn(name: str) -> tuple[list[float], float, float]:
    """Losses by step; bytes of a rank; the share of right answers of the last anchor."""
    tokens, labels = load("toy", "train")
    models = [build("mini") for _ in range(RANKS)]
    optimizers = [lane_of(name, model) for model in models]
    meter, losses = WireMeter(RANKS), []
    for step in range(STEPS):
        loss = 0.0
        parts = rows_of(step, BATCH, len(labels)).chunk(RANKS)
        for model, optimizer, rows in zip(models, optimizers, parts, strict=True):
            optimizer.zero_grad()
            own = F.cross_entropy(model(tokens[rows]), labels[rows])
            own.backward()
            loss += float(own.detach()) / RANKS
        meet(optimizers, meter)
        losses.append(loss)
    right = share_right("mini", models[0].state_dict(), *load("toy", "test"))
    return losses, meter.bytes, right


def measure_local_steps() -> None:
    """Lane by lane."""
    torch.set_num_threads(1)
    samples, sent, rights = {}, {}, {}
    for name in LANES:
        losses, sent[name], rights[name] = learn(name)
        groups = [losses[i : i + SHOWN] for i in range(0, STEPS, SHOWN)]
        samples[name] = [round(sum(group) / SHOWN, 4) for group in groups]
        print(name, samples[name][-1], rights[name], flush=True)
    recordings.save(
        "local-steps-race", samples, ranks=RANKS, steps=STEPS, averaged=SHOWN, bytes=sent,
        right=rights, unit="nats",
    )  # fmt: skip


if __name__ == "__main__":
    measure_local_steps()
