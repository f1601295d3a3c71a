"""The paper: LaTeX, and the program that reads its numbers from the pages that the reproductions write."""
