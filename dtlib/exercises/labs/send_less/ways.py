"""The largest numbers, and a memory of what was left out: the ways, and their slips."""

import math

import torch

from dtlib.efficiency.compression.compressor import Compressor, Gathered, Sent


class Largest(Gathered):
    """The largest numbers, with their places."""

    settings = ("share",)

    def __init__(self, share):
        self.share = share

    def count(self, flat):
        return math.ceil(self.share * flat.numel())

    def places(self, flat):
        return flat.abs().topk(self.count(flat)).indices

    def encode(self, flat, rank):
        places = self.places(flat)
        return flat[places], places.to(torch.int32)

    def add(self, message, into):
        numbers, places = message
        into.index_add_(0, places, numbers)


class Highest(Largest):
    """Forgets that a large number may be negative."""

    def places(self, flat):
        return flat.topk(self.count(flat)).indices


class OneShort(Largest):
    def count(self, flat):
        return max(1, int(self.share * flat.numel()) - 1)


class Wide(Largest):
    """Places of 8 bytes, as topk has them."""

    def encode(self, flat, rank):
        places = self.places(flat)
        return flat[places], places


class Whole(Largest):
    """Sends the zeros, too."""

    def encode(self, flat, rank):
        places = self.places(flat)
        return (torch.zeros_like(flat).index_copy_(0, places, flat[places]),)

    def add(self, message, into):
        into.add_(message[0])


class Sizes(Largest):
    """Sends sizes without signs."""

    def encode(self, flat, rank):
        numbers, places = super().encode(flat, rank)
        return numbers.abs(), places


class Overwriting(Largest):
    """Puts numbers where those of an earlier rank are."""

    def add(self, message, into):
        numbers, places = message
        into.index_copy_(0, places.long(), numbers)


class Short(Largest):
    """Places in 2 bytes: they wrap round in a long vector."""

    def encode(self, flat, rank):
        places = self.places(flat)
        return flat[places], places.to(torch.int16)

    def add(self, message, into):
        numbers, places = message
        into.index_add_(0, places.to(torch.int32).clamp(0), numbers)


class Remembering(Compressor):
    """Adds what was left out before, and keeps what is left out now."""

    settings = ("compressor",)

    def __init__(self, compressor):
        self.compressor, self.memory = compressor, 0.0

    def rounds(self, flat, shapes):
        due = flat + self.memory
        sent = yield from self.compressor.rounds(due, shapes)
        if torch.isfinite(sent.mean).all():
            self.memory = self.left(flat, due, sent)
        return sent

    def left(self, flat, due, sent):
        return due - sent.own


class Forgetful(Remembering):
    def left(self, flat, due, sent):
        return 0.0


class OnlyTheLast(Remembering):
    """Keeps what this gradient lacks, and forgets older debts."""

    def left(self, flat, due, sent):
        return flat - sent.own


class Everybodys(Remembering):
    """Takes away what all have, and not what this rank has sent."""

    def left(self, flat, due, sent):
        return due - sent.mean


class Poisoned(Remembering):
    """Keeps a NaN for ever."""

    def rounds(self, flat, shapes):
        due = flat + self.memory
        sent = yield from self.compressor.rounds(due, shapes)
        self.memory = due - sent.own
        return sent


class OwnMean(Remembering):
    """Returns what this rank has sent for what all have."""

    def rounds(self, flat, shapes):
        sent = yield from super().rounds(flat, shapes)
        return Sent(sent.own, sent.own)


class Quiet(Compressor):
    """Sends nothing."""

    def rounds(self, flat, shapes):
        return Sent(torch.zeros_like(flat), torch.zeros_like(flat))
        yield
