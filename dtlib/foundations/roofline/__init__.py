"""Arithmetic, memory and network bound a step together.

`times` and `intensity`; `one_ratio`, what a strategy must be to hide what it sends; `headroom`;
`gemm` and `tiles`, products of matrices; `pace`, and `sample`, some published times of products.
"""
