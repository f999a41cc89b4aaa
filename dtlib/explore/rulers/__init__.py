"""One loss that falls smoothly, and the metric that it is measured with: `rulers`."""
