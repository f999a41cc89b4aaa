"""Compression: a rank's `programs`; `compressor`, `sparse`, `levels`, `low_rank`, `feedback`.

`on_ranks`, the hooks; `one_bit_adam`; `sharded`, ZeRO++'s gathers; and `cost`.
"""
