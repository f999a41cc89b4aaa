"""Two matrices that the reader divides: `cuts`; `model.js` draws a divided matrix."""
