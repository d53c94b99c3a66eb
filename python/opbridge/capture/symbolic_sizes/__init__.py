"""Dynamic sizes of the inputs, and what a model does with sizes that are symbols."""
