"""What a run stands on: links, GPUs, nodes and clusters, with what they cost.

`alpha_beta`, the model of a link, and `fit`, its two numbers from measurements; `machine`, the
nouns; `datasheets`, `hardware` and `prices`, what is published, and `recognise`, which of it a
device is; `traffic` and `axis_order`, what crosses which link.
"""
