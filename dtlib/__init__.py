"""dtlib: the library of The Algebra of Distributed Training."""

__version__ = "0.1.0"
