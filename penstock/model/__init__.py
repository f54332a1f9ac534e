"""What a stream is: types, schema, batches, punctuations, progress policies and the clock."""
