"""Compares the models that symbolic functions of other projects make with those of torch's TorchScript exporter."""
