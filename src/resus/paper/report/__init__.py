"""Tables, figures and pages of a reproduction."""
