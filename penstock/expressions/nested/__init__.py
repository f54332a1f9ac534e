"""Functions on columns of ARRAYs, STRUCTs and MAPs."""
