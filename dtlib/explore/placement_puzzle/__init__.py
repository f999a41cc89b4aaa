"""A feed-forward block that the reader divides under the eyes of the types: `placement_puzzle`."""
