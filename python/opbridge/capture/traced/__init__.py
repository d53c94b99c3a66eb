"""capture="trace": one run of the model, operator by operator."""
