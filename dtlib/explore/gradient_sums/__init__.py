"""Over which axes a weight's gradient is added, guessed axis by axis: `gradient_sums`."""
