"""Runs TorchScript in Python while capture="trace" records it.

TorchScript's own interpreter reads sizes as the example's numbers. Here the graph of a function or a method runs node
by node, so a size stays a symbol. Each node runs in a Python frame at the line of the user's code from which
TorchScript has compiled it: errors, warnings and the nodes of the program name that line.

- ``calls``: the calls of functions and methods; TorchScript's interpreter runs those with nodes that are unknown here.
- ``interpreter``: graphs as steps, with their branches, loops and calls.
- ``structures``: nodes that make lists, tuples and dicts, read attributes, or refine types.
- ``scalars``: operators of numbers, lists, dicts and strings.
- ``tensors``: operators of tensors.
- ``sizes``: numbers that torch.jit.trace computes as tensors.
- ``lines``: the frames.
"""
