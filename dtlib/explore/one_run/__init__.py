"""One training run on more and more GPUs, drawn by the reader first: `one_run`."""
