"""A schedule, round by round: `stepper`; `model.js` plays it."""
