"""What an unmodified training script sends and holds, read without a GPU and without other ranks.

`reading`, its nouns; `machine`, tensors without values; `kernels`, what a GPU computes at once;
`held`, the bytes of each moment; `shapes`, those of products and attention; `watch`, which notes
what happens, phase by phase; `rank_zero`, the world in which the script runs; `guess`, the layout
that it speaks for; `child`, its process; `reader`, the door; `prices`, what a step would take on a
cluster; `describe`, the model that it trains; `config_file`, a model that is given; `comparison`,
the layouts that would be faster.
"""
