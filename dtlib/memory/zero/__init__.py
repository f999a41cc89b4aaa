"""ZeRO: the state of training, every rank a part of it.

`square`, the property; `flat`, a tensor in equal parts; `clipping`; `optimizer`, stages 1 and 2,
with its `scaler`; `units`, `order`, `state` and `full`, stage 3; `steps`, what a rank holds when;
`cost` and `hybrid`, what it sends.
"""
