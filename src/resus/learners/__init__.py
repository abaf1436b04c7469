"""Base-learners Λ: from one user's support residuals to the residual of any query, in closed form."""
