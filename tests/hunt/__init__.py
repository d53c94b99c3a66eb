"""Calls and programs drawn at random through opbridge and ONNX Runtime, compared with eager PyTorch."""
