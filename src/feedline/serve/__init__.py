"""The reader service: one process reads for several."""
