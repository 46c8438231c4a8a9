"""Benchmarks: suites of problems, a runner, SRBench's verdict, reports.

One direction inside: problems, tables and protocol make the data of a run; methods
fit it; worker does one run in a process of its own; verdict and metrics judge it;
isolation, results and runner start, limit and record the runs; report reads what was
recorded. Nothing heavy is imported until it is used.
"""
