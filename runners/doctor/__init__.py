"""`qualm doctor model` and `qualm cache audit`: check a model's port against plain forward passes, and stored answers against new ones.

Published ports differ in the place of images, the end of prompts, padding, caches and overflow, which gives plausible wrong numbers. A
check is a function of a `ModelUnderTest` that returns a `CheckResult`: measurement, expectation, advice. Tests of the engine use them too.
"""
