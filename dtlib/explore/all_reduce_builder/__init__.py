"""An all-reduce that the reader builds: `all_reduce_builder`; `model.js` has the rules of sends."""
