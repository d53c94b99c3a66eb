"""Calls of a torch.autograd.Function that has ``symbolic`` become single nodes of the captured program."""
