"""ZeRO: the state of training, every rank a part of it.

`square`, the property; `parts`, a flat tensor in equal parts; `clipping`; `units`, `order` and
`full`, stage 3; `state`, of an optimizer of parts; `optimizer`, stages 1 and 2, with its `scaler`;
`steps`, what a rank holds when; `cost` and `hybrid`, what it sends; `muon`,
whole matrices for an update that needs them.
"""
