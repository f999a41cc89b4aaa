"""How to divide a budget between a model and its tokens, estimated three ways and asked three ways.

`power_law`, the best model as a power of the budget; `isoflop` and `envelope`, two estimators of it
beside the fit of chapter 7; `synthetic`, runs whose truth is known; `published`, one experiment in
five settings; `search`, roots and valleys; `serving`, a model that will also be used; `repetition`,
tokens that are read again.
"""
