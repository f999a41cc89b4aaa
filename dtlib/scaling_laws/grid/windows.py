"""Windows of a text, in a stream for each seed, and what a model is asked of them.

Window 5,000 of a seed is the same in every run, however many a run reads at a time.
"""

from dtlib.later import torch

SEQ = 32  # letters of a window
_BLOCK = 2048  # windows that are drawn at once


class Windows:
    """The stream of windows of a seed, which is read by number; its `language` draws the text."""

    def __init__(self, language, seed: int):
        self.language, self.seed = language, seed
        self._block = (-1, torch.empty(0))

    def read(self, start: int, count: int) -> "torch.Tensor":
        """Windows start, start + 1, ...: shape (count, SEQ)."""
        parts = []
        while count:
            block, place = divmod(start, _BLOCK)
            part = self._drawn(block)[place : place + count]
            parts.append(part)
            start, count = start + len(part), count - len(part)
        return torch.cat(parts)

    def _drawn(self, block: int) -> "torch.Tensor":
        if self._block[0] != block:
            words = _BLOCK * SEQ // self.language.length
            text = self.language.text(words, [self.seed, block]).reshape(_BLOCK, SEQ)
            self._block = block, torch.from_numpy(text)
        return self._block[1]


def shifted(text_bs: "torch.Tensor", start: int) -> "torch.Tensor":
    """What the model sees when it must say each letter: those before it, and first `start`."""
    begin = torch.full((len(text_bs), 1), start)
    return torch.cat([begin, text_bs[:, :-1]], dim=1)


def window_loss(model, text_bs: "torch.Tensor") -> "torch.Tensor":
    """The mean loss of a letter of these windows, in nats."""
    logits_bsv = model(shifted(text_bs, model.spec.vocab - 1))
    return torch.nn.functional.cross_entropy(logits_bsv.flatten(0, 1), text_bs.flatten())
