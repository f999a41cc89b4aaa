"""A second language for the same grid: program text, whose entropy nobody knows.

The noun is `SourceText`: the Python files of an installed package, byte by byte. sympy has been
installed with this library, may be copied (it has the BSD licence of three clauses), and its files
are the same wherever its version is: so the text need not be kept here, and `digest` tells whether
it is the one that was trained on. Each window is read once: no run sees a byte twice.
"""

import hashlib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import torch
from torch.nn import functional as F

from dtlib.formulas.require import require
from dtlib.later import np
from dtlib.scaling_laws.grid.excess import Excess
from dtlib.scaling_laws.grid.windows import SEQ, shifted

PACKAGE = "sympy"
_BESIDE = {"tests", "benchmarks"}
_EVERY = 32  # of so many files one is held out
_ROWS = 4096  # windows that are judged


class SourceText:
    """The files of a package in the order of their names; one in 32 is held out, whole.

    Bytes above 127 are left out, so there are 128 letters; a word is a byte. `version` and `digest`
    (SHA-256 of all its bytes) say which text it is. Raises ModuleNotFoundError for a package that
    is not installed.
    """

    letters, length = 128, 1

    def __init__(self, package: str = PACKAGE):
        found = find_spec(package)
        if found is None:
            raise ModuleNotFoundError(f"SourceText: the package {package!r} is not installed")
        root = Path(found.origin).parent
        files = sorted(f.relative_to(root).as_posix() for f in root.rglob("*.py"))
        files = [name for name in files if not _BESIDE & set(name.split("/"))]
        texts = [bytes(b for b in (root / name).read_bytes() if b < 128) for name in files]
        self.version = f"{package} {metadata.version(package)}"
        self.digest = hashlib.sha256(b"".join(texts)).hexdigest()
        self.windows_ts = _windows(b"".join(t for i, t in enumerate(texts) if i % _EVERY))
        self.held_out_ts = _windows(b"".join(texts[::_EVERY]))

    def text(self, words: int, key):
        """The next windows of a run: `key` is its seed, which orders them, and the block's number.

        Raises ValueError where the text has come to its end.
        """
        seed, block = key
        count, total = words // SEQ, len(self.windows_ts)
        allowed = f"below {total // count}: the text has {total * SEQ} letters, each read once"
        require(block < total // count, "SourceText.text", "block", block, allowed)
        order = np.argsort(np.random.default_rng(seed).random(total), kind="stable")
        return self.windows_ts[order[block * count : (block + 1) * count]].astype(np.int64)


class HeldOutText:
    """Windows of the files that no run reads: the same for every model.

    `excess` is the loss itself, above 0 instead of above E, which nobody knows.
    """

    def __init__(self, language: SourceText, rows: int = _ROWS):
        self.language = language
        every = max(1, len(language.held_out_ts) // rows)
        self.text_bs = torch.from_numpy(language.held_out_ts[::every][:rows].astype(np.int64))

    @torch.no_grad()
    def excess(self, model) -> Excess:
        """Mean loss in nats per byte; `right` and `words` are the share of bytes guessed."""
        loss, right = [], []
        for rows_bs in self.text_bs.split(128):
            logits = model(shifted(rows_bs, self.language.letters)).double().flatten(0, 1)
            loss.append(F.cross_entropy(logits, rows_bs.flatten(), reduction="none"))
            right.append(logits.argmax(dim=-1) == rows_bs.flatten())
        nats, share = (torch.cat(x).double().mean().item() for x in (loss, right))
        return Excess(nats, (nats,), (share,), share)


def _windows(text: bytes):
    whole = len(text) // SEQ * SEQ
    return np.frombuffer(text[:whole], dtype=np.uint8).reshape(-1, SEQ)
