"""Every property is tried on the same examples in every run: a failure can be repeated."""

from hypothesis import settings

settings.register_profile("book", derandomize=True, deadline=None)
settings.load_profile("book")
