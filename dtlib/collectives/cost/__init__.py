"""What a collective costs.

`simulated`, on a topology; `ring_and_tree` and `rooted_and_grouped`, in closed form; `volume`;
`bounds`; `bandwidth`, how good a time is; `levels`, on nodes.
"""
