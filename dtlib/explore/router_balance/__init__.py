"""Loads of experts under a capacity: `router_balance`; `model.js` fills them."""
