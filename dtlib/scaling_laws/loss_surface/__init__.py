"""What a training run reaches: L = E + A/N^alpha + B/D^beta, from its equation to its intervals.

`surface`, the law, the best model under a budget and what that one reaches; `runs`, finished runs
as a table; `huber`, many fits at once; `resampled`, the middle of what resamples say; `blind`, what
points do not see; `parametric`, the fit with both; `published`, 245 runs read off a figure.
"""
