"""Score new users: one table of their events so far, one table of candidates, both of any size."""
