"""Two matrices that the reader divides: `cuts`."""
