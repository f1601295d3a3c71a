"""Options of a computation: sizes in words, cores, and threads of BLAS that are given back."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from ipseval import ComputeOptions
from ipseval.errors import InputError
from tests.inside.utils import compute


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (None, 128 * 1024 * 1024),
        (7, 7),
        ("7", 7),
        (" 7 b ", 7),
        ("3 KB", 3 * 1024),
        ("1.5mb", 1536 * 1024),
        ("2G", 2 * 1024**3),
        (".5 k", 512),
        ("2. k", 2048),
    ],
)
def test_a_size_is_a_number_of_bytes_or_one_with_a_unit(size, expected):
    assert ComputeOptions(max_memory=size).memory == expected


@pytest.mark.parametrize("size", ["", "MB", ".", ". MB", "1.2.3", "1..2", "1 TB", "-1", "1 MB 2", "1e6"])
def test_a_text_that_is_no_size_is_named(size):
    with pytest.raises(InputError) as caught:
        ComputeOptions(max_memory=size)
    assert str(caught.value) == f"max_memory must be a number of bytes or a text like '200 MB'; got {size!r}."


def test_no_size_and_no_number_is_below_one():
    for options, name in (
        ({"max_memory": "0.5"}, "max_memory"),
        ({"max_memory": 0}, "max_memory"),
        ({"n_threads": 0}, "n_threads"),
        ({"block_size": 0}, "block_size"),
    ):
        with pytest.raises(InputError, match=f"^{name} must be an integer >= 1; got 0.$"):
            ComputeOptions(**options)
    with pytest.raises(InputError, match="unknown value for engine: 'cuda'"):
        ComputeOptions(engine="cuda")
    with pytest.raises(InputError, match=r"^compute must be .*; got int\.$"):
        compute.check_compute(3)
    assert compute.check_compute(given := ComputeOptions(engine="numpy")) is given


def test_threads_are_those_that_are_asked_for_or_all_cores(monkeypatch):
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda process: {3, 5, 7} if process == 0 else {}, raising=False
    )
    assert ComputeOptions().threads == 3
    assert ComputeOptions(n_threads=2).threads == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert compute.available_cores() == 5
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert compute.available_cores() == 1


def test_blas_has_one_thread_until_the_last_of_overlapping_calls_ends(monkeypatch):
    library = SimpleNamespace(num_threads=4)
    libraries = [(library, lambda n: setattr(library, "num_threads", n))]
    monkeypatch.setattr(compute, "_find_blas_libraries", lambda: libraries)
    first, second = compute.one_blas_thread(), compute.one_blas_thread()
    with first:
        assert library.num_threads == 1
        with second:
            assert library.num_threads == 1
        assert library.num_threads == 1
    assert library.num_threads == 4


def test_libraries_of_blas_are_set_by_what_works_in_all_threads(monkeypatch):
    real = SimpleNamespace(user_api="blas", set_num_threads="plain", _real_set_num_threads="real")
    old = SimpleNamespace(user_api="blas", set_num_threads="plain")
    every = [real, SimpleNamespace(user_api="openmp"), old]
    monkeypatch.setattr("threadpoolctl.ThreadpoolController", lambda: SimpleNamespace(lib_controllers=every))
    compute._find_blas_libraries.cache_clear()
    assert compute._find_blas_libraries() == [(real, "real"), (old, "plain")]
    compute._find_blas_libraries.cache_clear()
