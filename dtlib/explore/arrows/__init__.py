"""Seven collectives between three places: `arrows`; `model.js` plays them on counts."""
