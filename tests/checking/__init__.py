"""What the programs that measure opbridge share: workers, comparison with eager PyTorch, reasons of refusals."""
