"""One outlier, and how many numbers share its scale: `outlier_blocks`."""
