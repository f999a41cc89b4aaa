"""A chain that runs backward with few states: `revolve_player`; `model.js` plays a schedule."""
