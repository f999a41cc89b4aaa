"""What all errors of the library have in common."""


class DtlibError(Exception):
    """Base of the library's own errors: ``except DtlibError`` leaves those of others alone.

    Each is also the ValueError, RuntimeError or AssertionError that Python would raise there.

    >>> from dtlib.formulas.sheet import SheetError, UnitError
    >>> issubclass(SheetError, DtlibError), issubclass(UnitError, ValueError)
    (True, True)
    """
