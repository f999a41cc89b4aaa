"""Generated lists with a filter: `exercise_index`, and the labs: `lab_list`, `lab_archive`."""
