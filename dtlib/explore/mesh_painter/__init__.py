"""A mesh on the GPUs of nodes, whose axes the reader orders: `mesh_painter`; `model.js` counts."""
