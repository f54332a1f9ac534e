"""The data model of streams: types, values, ticks, punctuations, progress policies, the clock."""
