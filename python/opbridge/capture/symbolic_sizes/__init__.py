"""Dynamic sizes of the inputs, and checks of what a model does with symbolic sizes."""
