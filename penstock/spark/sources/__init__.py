"""Sources of a job: DataFrames of the user, or feeds of Penstock's own sources."""
