"""The lab 'Send less'."""

from math import ceil

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.later import Later

judges = Later("dtlib.exercises.labs.send_less.laws")
answers = Later("dtlib.exercises.labs.send_less.ways")
book = Later("dtlib.efficiency")

# fmt: off
_D = 64_066  # of 4 ranks, each
_UNITS = 4 * ceil(_D / 512)
_DENSE, _EIGHT, _TOP = 1.5 * 4 * _D, 3 * (_D + _UNITS), 3 * 8 * ceil(_D / 100)

predict = Numbers(
    "ex-less-predict",
    About("What goes over the wire", "compute", 1, 6,
          "count the bytes of a ring and of a gather before running them"),
    [
        Asked("whole", _DENSE, "bytes", {
            4 * _D: "a ring sends more than a rank holds",
            3 * 4 * _D: "a ring does not gather: each phase sends three quarters"}, tolerance=1e-6),
        Asked("eight_bits", _EIGHT, "bytes", {
            3 * _D: "each 512 numbers have a unit, too",
            _D + _UNITS: "every message passes every rank: who sends it on?",
            1.5 * (_D + _UNITS): "messages that cannot be added are gathered"}, tolerance=1e-6),
        Asked("largest", _TOP, "bytes", {
            _TOP / 2: "each number says where it belongs",
            _TOP / 3: "every message passes every rank: who sends it on?"}, tolerance=1e-6),
        Asked("step", 1e-3 + 50e-6 + _EIGHT / 125e6, "s", {
            50e-6 + _EIGHT / 125e6: "the rank computes as well",
            1e-3 + _EIGHT / 125e6: "a message takes time to start",
            1e-3 + 50e-6 + _EIGHT / 1e9: "1 Gbit/s are 125 MB/s"}, tolerance=1e-3),
        Asked("border", 8 * _D / (_D + _UNITS), "", {
            4: "that is the ratio of the bits: a ring sends twice"}, tolerance=0.005),
    ],
    "the bytes of three ways, and where 8 bits are no gain any more",
    keyed=True,
)

largest = Made(
    "ex-less-largest",
    About("The largest, and where", "design", 2, 8,
          "write a compressor: its message, and what a message adds", needs="torch"),
    lambda answer: judges.largest_law(answer),
    lambda: answers.Largest,
    "the largest numbers of every rank arrive, with 4 bytes for each place",
    {
        "or others instead of them": lambda: answers.Highest,
        "of the largest numbers do not arrive": lambda: answers.OneShort,
        "a place needs 4 bytes": lambda: answers.Wide,
        "zeros need not travel": lambda: answers.Whole,
        "sizes arrive, and signs do not": lambda: answers.Sizes,
        "their sum is due": lambda: answers.Overwriting,
        "arrive elsewhere": lambda: answers.Short,
        "derives from Gathered": lambda: lambda share: answers.Largest(share),
    },
)

memory = Made(
    "ex-less-memory",
    About("What is owed", "design", 2, 8,
          "keep what was not sent, and only that", needs="torch"),
    lambda answer: judges.memory_law(answer),
    lambda: answers.Remembering,
    "what was left out is sent later, whatever the compressor; a NaN is not remembered",
    {
        "another mean than is due": lambda: answers.Forgetful,
        "the largest, step 2: another mean": lambda: answers.OnlyTheLast,
        "the largest, step 1: another mean": lambda: answers.Everybodys,
        "the NaN of step 7 is still remembered": lambda: answers.Poisoned,
        "the ranks end up with different means": lambda: answers.OwnMean,
        "derives from Compressor": lambda: lambda compressor: book.ErrorFeedback(compressor),
    },
)

beat = Made(
    "ex-less-beat",
    About("Beat the given one", "design", 3, 15,
          "trade bytes against steps on a link of 1 Gbit/s", needs="torch"),
    lambda answer: judges.race_law(answer),
    lambda: answers.Remembering(answers.Largest(0.01)),
    "ahead of the given one",
    {
        "since the link is too slow": lambda: book.ErrorFeedback(book.TopK(0.1)),
        "worse than those of whole gradients": lambda: book.TopK(0.003),
        "different means": lambda: answers.OwnMean(answers.Largest(0.01)),
        "nothing was sent": lambda: answers.Quiet(),
        "pass your compressor": lambda: 3,
    },
)
