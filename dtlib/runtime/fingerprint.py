import contextlib

checked_collectives = contextlib.nullcontext
