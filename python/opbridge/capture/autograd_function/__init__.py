"""Captures each call of a torch.autograd.Function that defines ``symbolic`` as a single node."""
