"""The reader's bet and its answer: `line`, on which both stand; `betting`; `answering`."""
