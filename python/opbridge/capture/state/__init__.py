"""Restores parameters, buffers and attributes of a model after a run, and captures the run's effect on them."""
