"""What readers practise on: links, jobs, logs and runs whose secrets the check alone knows."""
