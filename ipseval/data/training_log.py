"""Training interactions of baselines and propensities: of a split, or of a sparse matrix of its shape."""

from __future__ import annotations

from ipseval.data.interactions import Interactions, check_interactions
from ipseval.data.sparse import is_sparse_matrix, read_sparse_matrix


def as_training_log(train: object, advice: str = "split.train") -> Interactions:
    """Return training interactions over all users and items, of a log or of a matrix in the shape of the split.

    Parameters
    ----------
    train : Interactions or sparse matrix users × items
        Training interactions.
    advice : str, default "split.train"
        What to pass in place of another object, for the error.

    Returns
    -------
    Interactions
        The interactions of the matrix, or `train` itself.

    Raises
    ------
    InputError
        For any other object. A frame is refused, because it lacks users and items that only the test part has.

    See Also
    --------
    ipseval.Split.from_frames : Makes a split, whose part `train` is over all ids.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> as_training_log(csr_matrix([[1, 0], [1, 0]]))
    Interactions(2 pairs, 2 users, 2 items)
    """
    if is_sparse_matrix(train):
        table = read_sparse_matrix(train, None, None)
        return Interactions.from_frame(table.frame, users=table.users, items=table.items)
    check_interactions(train, "train", advice)
    assert isinstance(train, Interactions)
    return train
