"""Is this model's port right? Checks of any vision-language model against a plain forward pass of its own.

Lost without it: published ports differ in where pictures go, how a prompt ends, what padding and a cache do, and at which dtype
they overflow; each of these gives numbers that look like any others. A check is a function over a `Patient` that returns one
`CheckResult`: what was measured, what would be right, and what to do. The tests of the engine call the same functions.
"""
