"""Tells which of several values is unlike the others, by statistics that the odd ones cannot bend.

The modified z-score of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993): 0.6745 (x - median) / MAD, where MAD is
the median of the absolute deviations from the median; where more than half of the values are the same (MAD 0), (x - median) /
(1.253314 times the mean absolute deviation). Above 3.5, either way, a value is an outlier.
"""

SCORE_LEAST = 3.5
MAD_OF_NORMAL = 0.6745
"""In standard deviations, the MAD of a normal distribution."""
