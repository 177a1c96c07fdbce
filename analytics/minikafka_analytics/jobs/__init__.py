"""What many runs tell together: each job is a function from DataFrames to a DataFrame, with its schema and its rules in its docs.

`reports` makes tables of the runs' report.json, each of which is the analysis of one run alone; the other modules ask them.
"""
