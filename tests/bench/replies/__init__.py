"""Measure how often the judges read real replies as the benchmarks' authors did."""
