"""capture="export": the model as torch.export.export sees it."""
