"""capture="trace": records one run of the model, operator by operator."""
