"""Random numbers for ranks that share a model: the same where they hold copies, else different.

A mask of dropout over the stream must be the same on all ranks, or their copies drift apart. Over a
part that only one rank has it must be another one on every rank, or heads that have nothing to do
with each other lose the same numbers.
"""

from contextlib import contextmanager

import torch

from dtlib.runtime.process_group import ranks_of


class RandomStreams:
    """Two streams of random numbers beside torch's own.

    Arguments: `seed`, the same on all ranks; `group`. What is drawn inside ``with
    streams.replicated():`` is the same on every rank, inside ``with streams.sharded():`` it is not;
    the tokens of sequence parallelism count as sharded. Each stream goes on where it stopped, and
    torch's own is left as it was. Numbers are drawn on `device`.
    Source: Shoeybi et al. 2019, appendix B.2.
    """

    def __init__(self, seed: int, group, device: str = "cpu"):
        rank, _ = ranks_of(group)
        self._device = torch.device(device)
        self._states = {}
        for name, own_seed in (("replicated", seed), ("sharded", seed + 1 + rank)):
            generator = torch.Generator(device).manual_seed(own_seed)
            self._states[name] = generator.get_state()

    def replicated(self):
        """Draw the same numbers on every rank."""
        return self._drawing_from("replicated")

    def sharded(self):
        """Draw other numbers on every rank."""
        return self._drawing_from("sharded")

    @contextmanager
    def _drawing_from(self, name: str):
        on_cpu = self._device.type == "cpu"
        generators = torch if on_cpu else torch.get_device_module(self._device)
        outside = generators.get_rng_state()
        generators.set_rng_state(self._states[name])
        try:
            yield
        finally:
            self._states[name] = generators.get_rng_state()
            generators.set_rng_state(outside)
