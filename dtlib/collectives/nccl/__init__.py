"""How long NCCL takes: in a node, `model`, its `fit`, and `sample`, some published times; on nodes,
`network`, and `network_sample`.
"""
