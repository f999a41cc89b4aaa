"""A batch on its hyperbola, and what it costs in time and money: `batch_dial`."""
