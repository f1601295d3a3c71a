"""Benchmarks: the scripts behind docs/performance.md, and the workloads that tests share with them."""
