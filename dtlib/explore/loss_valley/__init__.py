"""The loss surface under the hand: a budget moves, and the valley moves along."""
