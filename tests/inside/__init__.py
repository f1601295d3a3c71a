"""Private names that tests reach for, one file for each wing: who renames one does so here."""
