"""All legal layouts of a run, time against memory, and the reader's own: `layout_cloud`."""
