"""Calls of a torch.autograd.Function that has ``symbolic``, kept whole in the captured program."""
