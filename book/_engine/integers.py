"""Integers of 64 bits where numpy's own are of 32: in the page, as everywhere else.

The page's processor has words of 32 bits, and numpy 1.24 makes an integer as wide as a word:
`np.arange(5) * 10**9` would overflow without a word. What makes arrays gives 64 bits here instead,
what adds up adds in 64 bits, and what wants indices as wide as a word gets them. A method of an
array is not reached by this: `a.astype(int)` still has 32 bits, `a.astype(np.int64)` has not.
"""

import importlib.util
import re
import sys
from collections.abc import Callable
from functools import wraps

MAKE = (
    "array", "asarray", "ascontiguousarray", "arange", "zeros", "ones", "empty",
    "full", "zeros_like", "ones_like", "full_like", "eye", "identity", "indices", "fromiter",
    "linspace", "tile", "concatenate", "stack", "vstack", "hstack", "diff", "outer", "sort",
    "unique", "max", "min", "amax", "amin", "where", "argsort", "argmax", "argmin", "searchsorted",
    "nonzero", "flatnonzero", "argwhere", "digitize",
)  # fmt: skip
ADD = ("sum", "prod", "cumsum", "cumprod", "dot", "matmul", "inner", "vdot", "trace")
INDEX = {"bincount": 0, "repeat": 1}


class AfterNumpy:
    """Finds numpy once, and widens its integers when it has been imported."""

    def find_spec(self, name: str, path=None, target=None):
        if name != "numpy":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (run(module), widen(module))
        return spec


def begin() -> None:
    """To be called before anything imports numpy."""
    sys.meta_path.insert(0, AfterNumpy())


def widen(numpy) -> None:
    """Put 64 bits in the place of a word's, where a word has fewer."""
    if numpy.dtype(int).itemsize == 8:
        return
    for name in MAKE:
        setattr(numpy, name, _made(getattr(numpy, name), numpy))
    for name in ADD:
        setattr(numpy, name, _added(getattr(numpy, name), numpy))
    for name, place in INDEX.items():
        setattr(numpy, name, _indexed(getattr(numpy, name), place, numpy))
    numpy.int_ = numpy.int64
    plainly = numpy.array_repr
    numpy.set_string_function(lambda array: _unsaid(array, plainly(array)), repr=True)


def _unsaid(array, text: str) -> str:
    """How an array prints: 64 bits go without saying, but for an array that has no entry."""
    return re.sub(r",\s+dtype=int64\)$", ")", text) if array.size else text


def _wide(value, numpy):
    """A value with its integers in 64 bits; what has other ones as it was."""
    if isinstance(value, tuple):
        return tuple(_wide(one, numpy) for one in value)
    narrow = isinstance(value, (numpy.ndarray, numpy.generic)) and value.dtype == numpy.dtype(int)
    return value.astype(numpy.int64) if narrow else value


def _made(make: Callable, numpy) -> Callable:
    @wraps(make)
    def made(*given, **options):
        if "dtype" in options:
            asked = options["dtype"]
            return make(*given, **(options | {"dtype": numpy.int64 if asked is int else asked}))
        given = tuple(numpy.int64 if one is int else one for one in given)
        if any(isinstance(one, (numpy.dtype, type)) for one in given):
            return make(*given, **options)
        return _wide(make(*given, **options), numpy)

    return made


def _added(add: Callable, numpy) -> Callable:
    def whole(value):
        if isinstance(value, (list, tuple, range)):
            value = numpy.array(value)
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        return value.astype(numpy.int64) if kind in ("b", "i") and value.itemsize < 8 else value

    @wraps(add)
    def added(*given, **options):
        if options.get("dtype") is int:
            options["dtype"] = numpy.int64
        return add(*map(whole, given[:2]), *given[2:], **options)

    return added


def _indexed(index: Callable, place: int, numpy) -> Callable:
    @wraps(index)
    def indexed(*given, **options):
        given = list(given)
        if len(given) > place:
            one = numpy.asarray(given[place])
            given[place] = one.astype(numpy.intp) if one.dtype.kind in ("i", "u") else given[place]
        return _wide(index(*given, **options), numpy)

    return indexed
