"""The quick questions of part 2, Scaling laws."""
