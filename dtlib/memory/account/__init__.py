"""The account of a rank's memory, term by term.

`formulas`, what the model itself needs; `state`, `layers` and `allocator`, the parts of the
account; `programs`, what known programs do besides; `asked`, what it is asked for; `lines`,
`moments` and `rank`, the whole of it; `many`, of many layouts at once; `gpt`, at its plainest;
`published`, some peaks to judge it by.
"""
