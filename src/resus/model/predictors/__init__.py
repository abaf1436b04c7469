"""Shared predictors Ψ: one logit for a row, the same for every user. All but LightGBM are also encoders Φ."""
