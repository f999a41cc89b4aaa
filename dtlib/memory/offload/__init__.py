"""Offloading: what the device does not need now waits elsewhere.

`store`, `host` and `disk`; `stream`, the one loop; `pipeline`, what look-ahead hides; `cost`;
`optimizer`, `parameters` and `activations`.
"""
