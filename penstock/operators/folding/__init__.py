"""From batches to group codes and arguments, and what is kept by group."""
