"""Threads, memory, interruption, progress, loading of Numba."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from ipseval import ComputeOptions, InputError, Split, rank_positives
from ipseval.ranking.kernels import numba_compile as _compiled
from tests.inside.ranking import _factors
from tests.inside.ranking import _rank_counts as _run
from tests.inside.utils import compute as compute_module
from tests.inside.utils import one_blas_thread
from tests.ranking.worlds import ENGINES, make_world

ROOT = Path(__file__).resolve().parents[2]


def one_positive_each(n_users: int, n_items: int):
    """Return a world with one positive per user."""
    return make_world(n_users, n_items, {(0, 1)}, {(u, u % n_items) for u in range(1, n_users)})


def random_factors(world, d: int = 4):
    rng = np.random.default_rng(0)
    return rng.normal(size=(world.n_users, d)), rng.normal(size=(world.n_items, d))


def blas_threads() -> list[int]:
    """Return the threads of the BLAS that multiplies NumPy's arrays; others may be loaded at any time."""
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    numpy_libraries = [library for library in libraries if "numpy" in library["filepath"]]
    return [library["num_threads"] for library in numpy_libraries or libraries]


def test_blas_has_one_thread_per_worker_and_gets_its_threads_back(monkeypatch):
    thread_counts: list[list[int]] = []
    original = _factors.Factors.count

    def spy(self, *arguments):
        thread_counts.append(blas_threads())
        return original(self, *arguments)

    monkeypatch.setattr(_factors.Factors, "count", spy)
    world = one_positive_each(50, 30)
    with threadpool_limits(2, user_api="blas"):
        initial_threads = blas_threads()
        rank_positives(
            random_factors(world),
            world.split,
            compute=ComputeOptions(n_threads=2, block_size=10, engine="numpy"),
        )
        assert blas_threads() == initial_threads
        monkeypatch.setattr(_factors.Factors, "count", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rank_positives(random_factors(world), world.split, compute=ComputeOptions(engine="numpy"))
        assert blas_threads() == initial_threads
    assert len(thread_counts) == 5
    assert all(threads == [1] * len(threads) for threads in thread_counts)


def test_blas_gets_its_threads_back_when_rankings_overlap():
    # The first to begin is the first to end: it must not give the threads back, nor the last keep them.
    first_runs, second_runs, first_is_done = (threading.Event() for _ in range(3))

    def run_first() -> None:
        with one_blas_thread():
            first_runs.set()
            second_runs.wait(10)
        first_is_done.set()

    with threadpool_limits(2, user_api="blas"):
        initial_threads = blas_threads()
        thread = threading.Thread(target=run_first)
        thread.start()
        first_runs.wait(10)
        with one_blas_thread():
            second_runs.set()
            first_is_done.wait(10)
            assert blas_threads() == [1] * len(initial_threads)
        thread.join()
        assert blas_threads() == initial_threads


def test_blas_gets_its_threads_back_after_many_rankings_in_threads():
    world = one_positive_each(40, 30)
    model = random_factors(world)
    compute = ComputeOptions(n_threads=2, block_size=5, engine="numpy")
    with threadpool_limits(2, user_api="blas"):
        initial_threads = blas_threads()
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda _: rank_positives(model, world.split, compute=compute), range(12)))
        assert blas_threads() == initial_threads


@pytest.mark.parametrize(("suffix", "share"), [(".nbi", 0.5), (".nbc", 0.0), (".nbc", 0.5)])
def test_a_damaged_cache_of_numba_is_built_again(suffix, share, tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "kernel.py"
    source.write_text("def twice(x):\n    return 2 * x\n")

    def load_kernel():
        spec = importlib.util.spec_from_file_location("kernel", source)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return _compiled.compile_kernel(module.twice)

    assert load_kernel()(4) == 8
    files = list((tmp_path / "cache").rglob(f"*{suffix}"))
    assert len(files) == 1
    content = files[0].read_bytes()
    files[0].write_bytes(content[: int(share * len(content))])
    assert load_kernel()(4) == 8
    kernel = load_kernel()
    assert kernel(4) == 8
    assert sum(kernel.stats.cache_hits.values()) == 1


def test_the_callers_function_is_called_in_the_callers_thread_with_blas_untouched():
    world = one_positive_each(600, 7)
    calls = []

    def score(users):
        calls.append((threading.get_ident(), blas_threads(), users.copy()))
        return np.zeros((users.size, 7))

    initial_threads = blas_threads()
    rank_positives(score, world.split, compute=ComputeOptions(n_threads=3, block_size=100))
    assert {ident for ident, _, _ in calls} == {threading.get_ident()}
    assert all(threads == initial_threads for _, threads, _ in calls)
    assert np.concatenate([users for _, _, users in calls]).tolist() == list(range(1, 600))


def test_the_callers_function_may_reuse_its_output():
    world = one_positive_each(500, 40)
    scores = np.random.default_rng(1).random((500, 40))
    buffer = np.empty((50, 40))

    def score(users):
        block = buffer[: users.size]
        block[:] = scores[users]
        return block

    ranked = rank_positives(score, world.split, compute=ComputeOptions(n_threads=2, block_size=50))
    assert ranked.n_above.tolist() == rank_positives(scores, world.split).n_above.tolist()


@pytest.mark.parametrize("kind", ["callable", "scorer"])
def test_an_error_in_the_callers_code_reaches_the_caller(kind):
    world = one_positive_each(300, 7)

    class Failing:
        parallel = True

        def block(self, users):
            if 150 in users:
                raise RuntimeError("out of GPU memory")
            return np.zeros((users.size, 7))

    model = Failing() if kind == "scorer" else Failing().block
    with pytest.raises(RuntimeError, match="out of GPU memory"):
        rank_positives(model, world.split, compute=ComputeOptions(n_threads=2, block_size=10))
    assert not [
        thread for thread in threading.enumerate() if thread.name.startswith(compute_module.THREAD_NAME)
    ]


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n_threads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_an_interrupt_stops_at_once(engine, n_threads, monkeypatch):
    n_users = 20_000
    n_items = 10_000
    pairs = pd.DataFrame({"user": np.arange(n_users), "item": np.arange(n_users) % n_items})
    ids = {"users": np.arange(n_users), "items": np.arange(n_items)}
    split = Split.from_frames(pairs[:1].assign(item=5), pairs[1:], **ids)
    rng = np.random.default_rng(0)
    model = tuple(rng.random((n, 128), dtype=np.float32) - np.float32(0.5) for n in (n_users, n_items))
    small_model = model[0][:9], model[1][:50]
    rank_positives(
        small_model, one_positive_each(9, 50).split, compute=ComputeOptions(engine=engine)
    )  # compiled
    has_begun = threading.Event()
    block_sizes = []
    original = _factors.Factors.count

    def spy(self, worker, block, *arguments):
        block_sizes.append(block.n_above.size)
        has_begun.set()
        return original(self, worker, block, *arguments)

    def interrupt():
        has_begun.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(_factors.Factors, "count", spy)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, too
    sender = threading.Thread(target=interrupt)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            rank_positives(model, split, compute=ComputeOptions(engine=engine, n_threads=n_threads))
    finally:
        sender.join()
        signal.signal(signal.SIGINT, handler)
    assert sum(block_sizes) < n_users / 2  # each user has one positive
    assert not [
        thread for thread in threading.enumerate() if thread.name.startswith(compute_module.THREAD_NAME)
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_buffers_follow_max_memory(engine):
    world = one_positive_each(300, 4000)
    model = random_factors(world)

    def rank(limit):
        compute = ComputeOptions(n_threads=2, max_memory=limit, engine=engine)
        rank_positives(model, world.split, compute=compute)

    def peaks(limit):
        rank(limit)  # what compiling takes is not counted
        for _ in range(8):
            tracemalloc.start()
            rank(limit)
            traced_peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            yield traced_peak

    n_copy_bytes = (
        8 * 4000 * 4 * 2
    )  # the factors in single precision, and room for one array per positive and user
    # Numba needs less than it may use; and one thread may end before the other begins.
    smallest_peak = 2 * 2**20 if engine == "numpy" else 0
    # One of eight: something else may allocate in the meantime.
    assert any(peak < 2**20 + n_copy_bytes + 2**20 for peak in peaks("1 MB"))
    assert any(smallest_peak < peak < 8 * 2**20 + n_copy_bytes + 2**20 for peak in peaks("8 MB"))


def test_a_limit_below_one_user_is_refused_with_the_size_that_would_do():
    world = one_positive_each(20, 4000)
    with pytest.raises(
        InputError, match=r"max_memory must be at least [\d,]+ bytes for .* with 2 threads; got 5,000 bytes\."
    ):
        rank_positives(
            random_factors(world), world.split, compute=ComputeOptions(n_threads=2, max_memory=5000)
        )
    with pytest.raises(InputError, match=r"max_memory must be at least .* got 5,000 bytes"):
        rank_positives(np.zeros((20, 4000)), world.split, compute=ComputeOptions(max_memory=5000))


@pytest.mark.parametrize(("block_size", "expected"), [(None, 9), (7, 7), (50, 9)])
def test_the_memory_of_one_worker_limits_the_users_of_a_block(block_size, expected):
    # 2,000 bytes for two workers: 1,000 each, 100 of them fixed, then 100 for each user.
    resources = compute_module.Resources(ComputeOptions(max_memory=2000, block_size=block_size), "m")
    assert (
        resources.users_per_block(100, n_users_wanted=40, n_workers=2, description="m", fixed_bytes=100)
        == expected
    )
    with pytest.raises(
        InputError, match=r"max_memory must be at least 2,002 bytes for m with 2 threads; got 2,000 bytes"
    ):
        resources.users_per_block(901, n_users_wanted=40, n_workers=2, description="m", fixed_bytes=100)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_threads": 0}, "n_threads must be an integer >= 1; got 0"),
        ({"block_size": 1.5}, "block_size must be an integer >= 1; got 1.5"),
        ({"max_memory": "lots"}, "max_memory must be a number of bytes or a text like '200 MB'; got 'lots'"),
        ({"max_memory": 0}, "max_memory must be an integer >= 1"),
        ({"engine": "numbra"}, "unknown value for engine: 'numbra'. Did you mean 'numba'"),
    ],
)
def test_compute_options_check_themselves(options, message):
    with pytest.raises(InputError, match=message):
        ComputeOptions(**options)


def test_a_request_for_numba_without_numba_gets_an_error(monkeypatch):
    monkeypatch.setattr(_run, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(_run.Work, "comparisons", 0.0)
    with pytest.raises(InputError, match="Install it by pip install numba"):
        _run.select_kernels("numba", 1e12)
    assert _run.select_kernels(None, 1e12).NAME == "numpy"


@pytest.mark.parametrize(
    ("text", "n_bytes"), [("1", 1), ("2 KB", 2048), ("1.5gb", 1.5 * 2**30), ("3M", 3 * 2**20), (7, 7)]
)
def test_memory_is_given_in_bytes_or_as_text(text, n_bytes):
    assert ComputeOptions(max_memory=text).memory == n_bytes


def test_progress_is_shown_on_request_only(capsys, monkeypatch):
    monkeypatch.setattr(compute_module, "BAR_DELAY", 0)
    world = one_positive_each(50, 30)
    rank_positives(random_factors(world), world.split, compute=ComputeOptions(progress=False))
    rank_positives(random_factors(world), world.split)  # standard error is no terminal here
    assert capsys.readouterr().err == ""
    rank_positives(random_factors(world), world.split, compute=ComputeOptions(progress=True), name="als")
    assert "ranking als" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sets POSIX permissions")
def test_kernels_are_cached_for_the_user_where_the_package_is_read_only(tmp_path):
    package = tmp_path / "site" / "ipseval"
    shutil.copytree(ROOT / "ipseval", package, ignore=shutil.ignore_patterns("__pycache__"))
    # One small kernel stands for all: they are compiled and cached by the same function.
    program = (
        "import numpy as np\n"
        "from ipseval.ranking.kernels.numba_kernels import pair_scores\n"
        "pair = np.zeros(1, dtype=np.intp)\n"
        "score = np.zeros(1)\n"
        "pair_scores(np.full((1, 2), 3.0), np.ones((1, 2)), np.empty(0), pair, pair, score)\n"
        "print(score[0], sum(pair_scores.stats.cache_hits.values()))"
    )
    # A user without a cache directory of its own either: then it is compiled each time, and works.
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    kernels = package / "ranking" / "kernels"
    blocking_file = kernels / "__pycache__"
    blocking_file.write_text("a file here keeps even root from making a cache beside the module")
    for path in (kernels, package / "ranking", package):
        path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        outputs = []
        for _ in range(2):
            process = subprocess.run(
                [sys.executable, "-c", program],
                cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert process.returncode == 0, process.stderr
            outputs.append(process.stdout.split())
    finally:
        for path in (package, package / "ranking", kernels):
            path.chmod(stat.S_IRWXU)
    cached = list((tmp_path / "cache").rglob("*.nbi")) + list((tmp_path / "home").rglob("*.nbi"))
    assert cached, "nothing was cached in the user's directory"
    assert outputs == [["6.0", "0"], ["6.0", "1"]]  # compiled, then read


@pytest.mark.parametrize("parallel", [False, True])
def test_a_block_with_too_few_rows_is_refused(parallel):
    class Short:
        def block(self, users):
            return np.zeros((users.size - 1, 4))

    Short.parallel = parallel
    pairs = pd.DataFrame({"user": [0, 1, 2], "item": [0, 1, 2]})
    split = Split.from_frames(pairs, pairs.assign(item=3), items=[0, 1, 2, 3])
    with pytest.raises(InputError, match=r"block returned shape \(2, 4\) for 3 users; expected \(3, 4\)"):
        rank_positives(Short(), split)
