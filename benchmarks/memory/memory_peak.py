"""The peak of a real training step against the equation: `memory-peak`.

A GPT takes two steps with Adam in 32 bits, on one thread. Three numbers for each step: what the
live set predicts, the most bytes that torch's allocator had given out (its profiler sees every one
of them), and the most that the operating system had given the process, above what it had before
the model was made. The third is measured in a process of its own for each shape, without profiler.
Everything is bytes; nothing depends on the speed of the machine.
"""

import subprocess
import sys

from dtlib import recordings
from dtlib.foundations import TransformerSpec

SPEC = TransformerSpec(
    "small", layers=4, hidden=256, heads=4, vocab=1024, positions=1024, dropout=False
)
SHAPES = [(64, 4), (128, 4), (256, 4), (512, 4), (512, 1)]  # (seq, micro_batch)
COUNT = 2


def train(spec, seq, micro_batch, around):
    """Two steps; `around(name)` is a context for each."""
    import torch

    from dtlib.models import GPT, next_token_loss

    torch.set_num_threads(1)
    tokens, targets = torch.randint(spec.vocab, (2, micro_batch, seq))
    model = GPT(spec)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for name in ("step 1", "step 2"):
        with around(name):
            loss = next_token_loss(model(tokens), targets)
            loss.backward()
            del loss
            optimizer.step()
            optimizer.zero_grad()


def measured_steps(spec, seq, micro_batch) -> dict[str, int]:
    """The most bytes that torch's allocator had given out, in each of two steps."""
    from torch._C._profiler import _EventType
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
        train(spec, seq, micro_batch, record_function)
    changes, steps, waiting = [], {}, list(prof.profiler.kineto_results.experimental_event_tree())
    while waiting:
        event = waiting.pop()
        waiting += event.children
        if event.tag == _EventType.Allocation:
            changes.append((event.start_time_ns, event.typed[1].alloc_size))
        elif event.name.startswith("step "):
            steps[event.name] = event.start_time_ns, event.end_time_ns
    alive, found = 0, dict.fromkeys(sorted(steps), 0)
    for moment, change in sorted(changes, key=lambda pair: pair[0]):
        alive += change
        for name, (start, stop) in steps.items():
            if start <= moment <= stop:
                found[name] = max(found[name], alive)
    return found


def resident_growth(spec, seq, micro_batch) -> int:
    """The most bytes that two steps add to what the system has given this process (Linux)."""
    from contextlib import nullcontext

    tiny = TransformerSpec("tiny", 1, 16, 1, 16, positions=16)
    train(tiny, 8, 1, nullcontext)  # what torch loads at its first step is not the model's
    before = _status("VmRSS")
    train(spec, seq, micro_batch, nullcontext)
    return _status("VmHWM") - before


def _status(name: str) -> int:
    """Bytes of a line of the process's status; unlike getrusage's they are not the parent's."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) * 1024


def measure_memory_peak() -> None:
    """Write the recording `memory-peak`."""
    samples = {}
    for seq, micro_batch in SHAPES:
        label = f"{micro_batch} x {seq}"
        for name, peak in measured_steps(SPEC, seq, micro_batch).items():
            samples[f"allocated, {name}, {label}"] = [peak]
        command = [
            sys.executable,
            "-m",
            "benchmarks.memory.memory_peak",
            str(seq),
            str(micro_batch),
        ]
        samples[f"resident, {label}"] = [
            int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            for _ in range(COUNT)
        ]
    recordings.save(
        "memory-peak", samples, unit="B", shapes=SHAPES,
        shape=[SPEC.layers, SPEC.hidden, SPEC.heads, SPEC.vocab, SPEC.positions],
    )  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:]:
        print(resident_growth(SPEC, int(sys.argv[1]), int(sys.argv[2])))
    else:
        measure_memory_peak()
