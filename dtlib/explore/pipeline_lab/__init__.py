"""Pipeline schedules in time: `pipeline_lab`; `model.js` plays them."""
