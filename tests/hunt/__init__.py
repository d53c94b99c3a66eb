"""Runs random calls and programs through opbridge and ONNX Runtime, and compares them with eager PyTorch."""
