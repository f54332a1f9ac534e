"""Aggregate functions on columns: fold rows, merge and subtract partial results, finish."""
