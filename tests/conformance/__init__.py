"""Runs every operator of PyTorch's own test database through opbridge and ONNX Runtime, and compares with eager."""
