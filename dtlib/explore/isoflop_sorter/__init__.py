"""One experiment, made and counted as the reader chooses: `isoflop_sorter`."""
