"""Layers that come over a link: `offload_lab`; `model.js` unpacks a stored run."""
