"""Functions that take a number, a numpy array or a sympy expression.

A formula written with these is evaluated, plotted over an array, differentiated and printed as
JavaScript from one definition. Each dispatches on its arguments: sympy if one of them is a
sympy expression, numpy if one is an array, plain Python otherwise. Neither is imported here:
who passes a symbol or an array has imported it.
"""

import math
import sys


def _library(*arguments):
    """The library that the arguments belong to: sympy, numpy or math."""
    sympy = sys.modules.get("sympy")
    if sympy and any(isinstance(x, sympy.Basic) for x in arguments):
        return sympy
    numpy = sys.modules.get("numpy")
    if numpy and any(isinstance(x, numpy.ndarray) for x in arguments):
        return numpy
    return math


def ceil(x):
    r"""The smallest integer that is at least `x`.

    >>> import numpy as np
    >>> ceil(2.1), ceil(np.array([2.0, 2.1])).tolist()
    (3, [2.0, 3.0])
    """
    library = _library(x)
    return library.ceiling(x) if library.__name__ == "sympy" else library.ceil(x)


def floor(x):
    """The largest integer that is at most `x`.

    >>> floor(2.9)
    2
    """
    return _library(x).floor(x)


def log2(x):
    """The logarithm to base 2.

    It stays whole in sympy: log(x)/log(2), which sympy would make of it, is one rounding error
    too large at 2**29, and `ceil` of it one too many.

    >>> import numpy as np
    >>> log2(2**29), log2(np.array([2.0, 8.0])).tolist()
    (29.0, [1.0, 3.0])
    """
    library = _library(x)
    if library.__name__ == "sympy":
        from sympy.codegen.cfunctions import log2 as symbolic_log2

        return symbolic_log2(x)
    return library.log2(x)


def ln(x):
    """The natural logarithm.

    >>> ln(1.0)
    0.0
    """
    return _library(x).log(x)


def exp(x):
    """The exponential function.

    >>> exp(0.0)
    1.0
    """
    return _library(x).exp(x)


def sqrt(x):
    """The square root.

    >>> sqrt(9.0)
    3.0
    """
    return _library(x).sqrt(x)


def maximum(x, y):
    """The larger of two values.

    >>> import numpy as np
    >>> maximum(2, 3), maximum(np.array([1, 5]), 3).tolist()
    (3, [3, 5])
    """
    library = _library(x, y)
    if library.__name__ == "sympy":
        return library.Max(x, y)
    return library.maximum(x, y) if library.__name__ == "numpy" else max(x, y)


def minimum(x, y):
    """The smaller of two values.

    >>> minimum(2, 3)
    2
    """
    library = _library(x, y)
    if library.__name__ == "sympy":
        return library.Min(x, y)
    return library.minimum(x, y) if library.__name__ == "numpy" else min(x, y)


def where(condition, x, y):
    """`x` where the condition holds, else `y`. Both are evaluated.

    >>> import numpy as np
    >>> where(3 > 2, "yes", "no"), where(np.array([1, 3]) > 2, 1.0, 0.0).tolist()
    ('yes', [0.0, 1.0])
    """
    library = _library(condition, x, y)
    if library.__name__ == "sympy":
        return library.Piecewise((x, condition), (y, True))
    if library.__name__ == "numpy":
        return library.where(condition, x, y)
    return x if condition else y
