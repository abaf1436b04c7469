"""The experiments of the paper (section 5): rivals, cells, comparisons, claims and the report.

Only `resus reproduce`, and `resus warm-up` with a rival of the paper, import this package.
"""
