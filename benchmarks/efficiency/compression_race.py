"""The micro-lab's task, learnt with whole gradients and with compressed ones.

compression-race    labels "dense loss", "dense computing", "dense coding" and so for each lane: the
                    loss of each step, and seconds of one processor, of one rank, in the same steps;
                    about it: bytes that a rank sends in a step, and the share of right answers

    python -m benchmarks.efficiency.compression_race     (two minutes of one core)
"""

import torch

from dtlib import recordings
from dtlib.efficiency import Dense, ErrorFeedback, PowerSGD, SignSGD, TopK
from dtlib.efficiency.compression.race import Lane, learn

RANKS, STEPS, SHOWN = 4, 160, 8
LANES = {
    "dense": Dense(),
    "top 1 %": ErrorFeedback(TopK(0.01)),
    "top 1 %, no memory": TopK(0.01),
    "signs": ErrorFeedback(SignSGD()),
    "rank 4": ErrorFeedback(PowerSGD(rank=4)),
}


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
        done[name] = learn(compressor, P=RANKS, steps=STEPS)
        print(name, done[name].losses[-1], done[name].right, flush=True)
        record(done)


if __name__ == "__main__":
    measure_compression_race()
