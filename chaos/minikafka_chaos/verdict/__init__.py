"""From the evidence of a run to its verdict: what was lost, what was claimed, how sure that is."""
