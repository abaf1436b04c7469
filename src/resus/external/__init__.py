"""A model that writes a column: someone's function, estimator or model file scores raw rows, as logits.

What it writes is a numeric field like any other; everything downstream reads the field and never meets the model.
"""
