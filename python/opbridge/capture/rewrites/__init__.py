"""Functions and modules of torch that a capture replaces by operators that compute the same."""
