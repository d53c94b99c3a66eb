"""Parameters, buffers and attributes of a model: a run leaves them as they were, and its effect on them is captured."""
