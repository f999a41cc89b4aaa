"""One rank behind a real cable: a process of its own, since a namespace holds whole processes."""

import sys
from datetime import timedelta
from pathlib import Path

import cloudpickle
import torch
import torch.distributed as dist

from dtlib.efficiency.compression.programs import WireMeter


def main(folder: Path) -> None:
    """Run the program in the folder as the rank that the environment names; leave what it found."""
    torch.set_num_threads(1)
    program, args = cloudpickle.loads((folder / "program").read_bytes())
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    found = program(WireMeter(dist.get_world_size()), *args)
    (folder / f"found{dist.get_rank()}").write_bytes(cloudpickle.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
