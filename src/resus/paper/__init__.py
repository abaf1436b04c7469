"""The paper's section 5: every table and figure, from cells that are run once, beside the paper's own numbers."""
