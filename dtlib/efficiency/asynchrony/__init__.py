"""Asynchrony: the `rules` of a server, its `history`, and the border of `stability`.

`server`, on ranks; `two_level`, `scaffold` and `fixed_point`, local steps; `gossip`; `rollouts` and
`post_training`, generators and a trainer; and `cost`.
"""
