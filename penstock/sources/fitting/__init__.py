"""Values as the declared types: whole columns at once where Arrow can, cell by cell where not."""
