"""What is run and kept: a cell is one method on one data set with one seed."""
