"""The catalogue of functions: their names, argument types and result types, and their meaning on
single values.
"""
