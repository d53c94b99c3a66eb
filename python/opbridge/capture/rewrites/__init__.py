"""Functions and modules of torch that a capture runs in another form, made of operators that compute the same."""
