"""How long NCCL takes: `model`, `fit`, and `sample`, some published times."""
