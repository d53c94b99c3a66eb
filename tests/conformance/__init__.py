"""Every operator of PyTorch's own test database through opbridge and ONNX Runtime, compared with eager PyTorch."""
