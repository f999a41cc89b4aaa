"""All strategies of a layout in one run, on a mesh of real ranks.

`places`, where a rank stands and whom it talks to; `checks`, what a layout asks of all others;
`blocks`, a layer with its matrices, experts and tokens divided; `stage`, a stretch of such layers;
`pieces`, which part of each weight lies where; `sums`, the gradients that are still to be added;
`optimizer`, plain or sharded; `parallel`, which puts them together.
"""
