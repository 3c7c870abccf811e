"""feedline feeds training loops. The public names, and nothing else."""
