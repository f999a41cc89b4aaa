"""What compute costs: `economics`, `preemption`, `steps` and `published_runs`."""
