"""Check a vision-language model's port against plain forward passes of its own weights.

Published ports differ in the place of images, the end of prompts, padding, caches and overflow, which gives plausible wrong numbers. A
check is a function of a `ModelUnderTest` that returns a `CheckResult`: measurement, expectation, advice. Tests of the engine use them too.
"""
