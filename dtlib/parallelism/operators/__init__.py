"""Communication that a gradient can pass, and what carries it.

`groups`, who sends to whom; `messages`; `adjoint`, every operator beside its transpose, and
`transposes`, the test that certifies it; `counting`; `random_streams`; `keeper`, how modules that
keep a group are copied and saved.
"""
