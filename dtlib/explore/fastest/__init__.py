"""Which of several formulas is smallest, over two variables: `fastest`."""
