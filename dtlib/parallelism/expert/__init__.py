"""Expert parallelism: `routing`, `layer`, `load`, and its `cost`."""
