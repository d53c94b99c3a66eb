"""capture="export": captures the model with torch.export.export."""
