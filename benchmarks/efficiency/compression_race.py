"""The micro-lab's task, learnt with whole gradients and with compressed ones.

All ranks are in this process, so that nothing but the compressor differs from lane to lane.

compression-race    labels "dense loss", "dense computing", "dense coding" and so for each lane: the
                    loss of each step, and seconds of one processor, of one rank, in the same steps;
                    about it: bytes that a rank sends in a step, and the share of right answers

    python -m benchmarks.efficiency.compression_race     (two minutes of one core)
"""

import time
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from dtlib import recordings
from dtlib.efficiency import Dense, ErrorFeedback, PowerSGD, SignSGD, TopK
from dtlib.efficiency.compression.compressor import Compressor
from dtlib.efficiency.compression.programs import WireMeter, together
from dtlib.micro_lab.runs import build, load, rows_of, share_right
from dtlib.parallelism.data.flat import Flat

RANKS, STEPS, SHOWN, BATCH, RATE = 4, 160, 8, 32, 3e-4
LANES = {
    "dense": Dense(),
    "top 1 %": ErrorFeedback(TopK(0.01)),
    "top 1 %, no memory": TopK(0.01),
    "signs": ErrorFeedback(SignSGD()),
    "rank 4": ErrorFeedback(PowerSGD(rank=4)),
}


@dataclass(frozen=True)
class Lane:
    """One run, by its step: `losses` of all ranks' sentences, before the step is taken.

    `bytes`, what a rank sends in a step; `computing` and `coding`, one rank's seconds of processor
    time for its gradient and for its messages; `right`, the share of right answers in the end, on
    reviews that nobody trained on.
    """

    losses: list[float]
    bytes: float
    computing: list[float]
    coding: list[float]
    right: float


def learn(compressor: Compressor) -> Lane:
    """Train the micro-lab's small encoder with Adam on the compressed mean of ranks' gradients.

    All lanes begin with the same weights, and see the same sentences. Seconds are those of this
    process, over the ranks: set torch to one thread to compare them.
    """
    tokens, labels = load("toy", "train")
    model = build("mini")
    flat = Flat(model.parameters())
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    ranks = [compressor.fresh() for _ in range(RANKS)]
    meter, losses, computing, coding = WireMeter(RANKS), [], [], []
    for step in range(STEPS):
        loss, gradients, began = 0.0, [], time.process_time()
        for rows in rows_of(step, BATCH, len(labels)).chunk(RANKS):
            optimizer.zero_grad()
            of_rank = F.cross_entropy(model(tokens[rows]), labels[rows])
            of_rank.backward()
            gradients.append(flat.lay_out(flat.gradients()))
            loss += float(of_rank.detach()) / RANKS
        between = time.process_time()
        programs = [c.program(g, flat.shapes) for c, g in zip(ranks, gradients, strict=True)]
        mean = together(programs, meter)[0].mean
        coding.append((time.process_time() - between) / RANKS)
        for parameter, gradient in zip(flat.parameters, flat.cut(mean), strict=True):
            parameter.grad = gradient.clone()
        optimizer.step()
        computing.append((between - began) / RANKS)
        losses.append(loss)
    right = share_right("mini", model.state_dict(), *load("toy", "test"))
    return Lane(losses, meter.bytes / STEPS, computing, coding, right)


def record(lanes: dict[str, Lane]) -> None:
    """Means of the loss over some steps at a time; all else as it was."""
    samples = {}
    for name, lane in lanes.items():
        groups = [lane.losses[i : i + SHOWN] for i in range(0, len(lane.losses), SHOWN)]
        samples[f"{name} loss"] = [round(sum(group) / len(group), 4) for group in groups]
        samples[f"{name} computing"] = [round(s, 5) for s in lane.computing[::SHOWN]]
        samples[f"{name} coding"] = [round(s, 5) for s in lane.coding[::SHOWN]]
    recordings.save(
        "compression-race",
        samples,
        ranks=RANKS,
        steps=STEPS,
        averaged=SHOWN,
        bytes={name: lane.bytes for name, lane in lanes.items()},
        right={name: lane.right for name, lane in lanes.items()},
        unit="nats; seconds of one processor",
    )


def measure_compression_race() -> None:
    """Lane by lane; what is done is recorded after each."""
    torch.set_num_threads(1)
    done = {}
    for name, compressor in LANES.items():
        done[name] = learn(compressor)
        print(name, done[name].losses[-1], done[name].right, flush=True)
        record(done)


if __name__ == "__main__":
    measure_compression_race()
