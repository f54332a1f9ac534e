"""What Spark reads for a stream: DataFrames that were given, or feeds of other sources."""
