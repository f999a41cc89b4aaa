"""The micro-lab as a script: one engine, or the whole offline run.

    python microlab.py                                  all of it, on two processes
    python microlab.py --engine zero3 --steps 100       one engine; its log lies in logs/
    torchrun --nproc-per-node 2 microlab.py --engine torch-ddp --bucket-mb 5

Where every rank has a GPU it runs over NCCL, else over gloo. Online, and with the extras
(`pip install "dtlib[online]"`), published weights are tuned on SST-2; an epoch is 2,105 steps:

    torchrun --nproc-per-node 2 microlab.py --engine fsdp --size pretrained --data sst2 \
        --steps 2105 --timeout 3600
"""

import argparse
import importlib.util
import math
import os
import sys
import tempfile
import time
from pathlib import Path

from dtlib import launch
from dtlib.formulas.units import MiB
from dtlib.foundations import fit_alpha_beta
from dtlib.micro_lab.claims import check_claims
from dtlib.micro_lab.engines import ENGINES, native_bucket_bytes
from dtlib.micro_lab.runs import DATA, SIZES, bare_all_reduces, build, run_engine, sweep
from dtlib.micro_lab.step_log import of_step
from dtlib.parallelism import overlapped_steps
from dtlib.runtime import RanksError, RankTimeout

CAPS = (None, 1, 5, 25, 100, 1000)
LEARNING = 300  # steps after which the toy sentences have been learned
LONGER = 5  # times the timeout, for these steps and the large model of the whole run
FIRST = int(os.environ.get("RANK", 0)) == 0


def say(*words) -> None:
    if FIRST:
        print(*words, flush=True)


def gather(value) -> list:
    """One value from each rank, on every rank."""
    import torch.distributed as dist

    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def on_all(ranks, function, *args, **options) -> list:
    """The results of all ranks: a pool returns them, under torchrun they are gathered."""
    found = ranks.run(function, *args, **options)
    return found if "RANK" not in os.environ else gather(found)


def one_engine(ranks, name, options, evaluate=True):
    """Run one engine; its records of all ranks, the weights, and what to say about it."""
    start = time.perf_counter()
    runs = on_all(ranks, run_engine, name, evaluate=evaluate, **options)
    records = [line for run in runs for line in run.records]
    if name == "single":
        records = runs[0].records
    steps = [r for r in records if r["op"] == "step" and r["rank"] == 0]
    middle = sorted(r["step_ms"] for r in steps)[len(steps) // 2]
    line = f"{name:10} {len(steps)} steps, {middle:6.1f} ms each, loss {steps[-1]['loss']:.3f}"
    right = f", {runs[0].accuracy:.1%} of the test part right" if evaluate else ""
    say(f"{line}{right}  ({time.perf_counter() - start:.0f} s)")
    return records, runs[0].weights


def whole_run(ranks, options) -> None:
    """All engines, the six claims, the equivalence, a sweep of bucket sizes and its prediction."""
    quarter = {**options, "bucket_mb": 0.25}
    done = {name: one_engine(ranks, name, quarter, evaluate=False) for name in ENGINES}
    predicted = native_bucket_bytes(build(options["size"]).parameters(), 0.25)
    claims = check_claims({name: records for name, (records, _) in done.items()}, predicted)
    for letter, seen in claims.items():
        say(f"  ({letter}) {seen}")
    for name, limit in [("zero3", 1e-6), ("fsdp", 1e-6), ("torch-ddp", 1e-6), ("single", 5e-4)]:
        found = max(
            float((done[name][1][key] - weight).abs().max())
            for key, weight in done["ddp"][1].items()
        )
        assert found <= limit, f"the weights of {name} are {found:g} away from those of ddp"
        say(f"  weights of ddp and {name}: {found:.1g} apart, {limit:g} allowed")
    timeout = LONGER * options["timeout"]
    if options["steps"] < LEARNING:  # in a folder of its own: the logs that were compared stay
        more = {"steps": LEARNING, "timeout": timeout, "folder": options["folder"] / "longer"}
        one_engine(ranks, "torch-ddp", options | more)
    bucket_sweep(ranks, size="base", batch=4, length=8, steps=3, timeout=timeout)


def bucket_sweep(ranks, size, **options) -> None:
    """Buckets as predicted by torch's function, and their last end as predicted by alpha, beta."""
    sizes = [2**k for k in (12, 16, 18, 20, 22, 24, 26)]
    samples = on_all(ranks, bare_all_reduces, sizes, timeout=options["timeout"])[0]
    fit = fit_alpha_beta(samples)
    rate = f"{fit.beta / 1e9:.2f} GB/s"
    say(f"alpha {1e6 * fit.alpha:.0f} us, beta {rate}, from {len(sizes)} sizes of bare all-reduces")
    say("cap (MiB)  buckets  last bucket   backward   last sum   predicted  ratio")
    parameters = list(build(size).parameters())
    for cap in CAPS:
        records = on_all(ranks, sweep, [cap], size, **options)[0][cap]
        lines = of_step(records, options["steps"] - 1)
        found = [line["bytes"] for line in lines]
        assert found == native_bucket_bytes(parameters, cap), f"cap {cap}: {found}"
        ready = [line["launch_ms"] for line in lines]
        guess = overlapped_steps(ready, [1000 * fit.time(n) for n in found])[-1]
        last = max(line["done_ms"] for line in lines)
        label = "25, first 1" if cap is None else cap
        say(
            f"{label!s:>11}{len(lines):7}{found[-1] / MiB:9.1f} MiB"
            f"{lines[-1]['bwd_done_ms']:8.0f} ms{last:8.0f} ms{guess:9.0f} ms{guess / last:7.2f}"
        )


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--engine", choices=ENGINES, help="one engine (default: the whole run)")
    parser.add_argument("--size", choices=SIZES, default="mini")
    parser.add_argument("--data", choices=DATA, default="toy")
    parser.add_argument(
        "--bucket-mb", type=float, help="MiB of a bucket (default: as torch has it)"
    )
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=32, help="sentences of all ranks in a step")
    parser.add_argument("--world", type=int, default=2, help="processes, if torchrun starts none")
    parser.add_argument("--folder", type=Path, default=Path("logs"), help="where the logs go")
    parser.add_argument("--timeout", type=float, default=60, help="seconds until a run is stopped")
    return parser


def refused(chosen) -> str | None:
    """What is wrong with the arguments, before a process is started for them."""
    for name in ("steps", "batch", "world", "timeout", "bucket_mb"):
        value = getattr(chosen, name)
        if value is not None and not 0 < value < math.inf:
            return f"--{name.replace('_', '-')} {value}: must be a positive number"
    P = int(os.environ.get("WORLD_SIZE", chosen.world))
    if chosen.batch % P:
        return f"--batch {chosen.batch}: must be a multiple of {P}, for {P} ranks share it"
    if not chosen.engine and (P < 2 or chosen.steps < 2):
        return f"--world {P} --steps {chosen.steps}: two ranks and two steps at least, or --engine"
    if (chosen.data, chosen.size) == ("sst2", "mini"):
        return "--data sst2: mini does not have its words; give --size base or pretrained"
    extras = ["transformers"] * (chosen.size == "pretrained" or chosen.data == "sst2")
    extras += ["datasets"] * (chosen.data == "sst2")
    if missing := [name for name in extras if importlib.util.find_spec(name) is None]:
        return (
            f"--size {chosen.size} --data {chosen.data}: {' and '.join(missing)} missing, "
            "pip install 'dtlib[online]'; --size mini --data toy needs nothing"
        )
    try:
        chosen.folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=chosen.folder).close()
    except OSError as error:
        return f"--folder {chosen.folder}: {error.strerror}; name a folder that can be written"
    return None


def main() -> None:
    parser = arguments()
    chosen = parser.parse_args()
    if wrong := refused(chosen):
        parser.error(wrong)
    options = {key: getattr(chosen, key) for key in ("size", "data", "steps", "batch", "timeout")}
    options |= {"bucket_mb": chosen.bucket_mb, "folder": chosen.folder.absolute()}
    start = time.perf_counter()
    world = None if "RANK" in os.environ else chosen.world
    try:
        with launch(world, timeout=chosen.timeout) as ranks:
            if chosen.engine:
                one_engine(ranks, chosen.engine, options)
            else:
                whole_run(ranks, options)
    except (RanksError, AssertionError) as error:
        hint = "\n(--timeout gives them more time)" if isinstance(error, RankTimeout) else ""
        sys.exit(f"{parser.prog}: {error}{hint}")
    say(f"{time.perf_counter() - start:.0f} s in all; the logs are in {chosen.folder}/")


if __name__ == "__main__":
    main()
