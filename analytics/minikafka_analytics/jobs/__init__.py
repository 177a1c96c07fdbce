"""What runs tell: each job is a function from DataFrames to a DataFrame, with its schema and its rules in its docs.

`lag`, `isr`, `scrapes` and `resources` ask the landed tables and steps of a run (`measure`); what they give is small, and held
against the run's faults and events by the driver (`observed`). `reports` makes tables of many runs' report.json, each of which is
the analysis of one run alone; `recovery`, `outcomes` and `outliers` ask those.
"""
