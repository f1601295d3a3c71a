"""The ground: types, checks, ids, columns, counts, files, the codec of results, the border."""
