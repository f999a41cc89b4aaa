"""Numbers of few bits: what rounding keeps, what it loses, and how training lives with that.

`formats`, a format as its fields; `rounding`, numbers to the nearest of a format; `blocks`, scales
that neighbours share; `windows`, which share of a gradient falls out; `scaler`, the scale of the
loss; `sums`, long sums; `kept`, weights of few bits; `products`, fp8 training emulated; `spikes`,
how far Adam moves; `cost`, what a cast takes; `fixed_order`, sums over ranks with the same bits.
"""
