"""Shared by the programs that measure opbridge: workers, comparison with eager PyTorch, reasons of refusals."""
