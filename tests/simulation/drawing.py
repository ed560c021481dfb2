"""Every table, and the processes that draw its samples."""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from multiprocessing import get_context

from tests.simulation import comparisons, guarantees, recalibrations, single_values
from tests.simulation.tallies import Outcomes, Question, Row, Tallies, simulate

QUESTIONS = {
    question.name: question
    for question in (
        single_values.QUESTION,
        single_values.SETS,
        single_values.AGREEMENT,
        comparisons.OF_CALIBRATION,
        comparisons.OF_RANKINGS,
        comparisons.OF_ANSWERS,
        comparisons.MARGIN,
        comparisons.RANKINGS,
        guarantees.QUESTION,
        recalibrations.QUESTION,
    )
}
BATCH = 20
"""Samples that are drawn, and counted, together."""


def draw(name: str, row: Row, first: int) -> list[Outcomes]:
    """Draw a batch in a process of its own, on one thread."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return simulate(QUESTIONS[name], row, first, BATCH)


def fill(tallies: Tallies, questions: dict[str, Question], samples: int, end: float, processes: int) -> None:
    """Draw batches until the time `end`, or until each row has its samples."""
    batches = tallies.batches(questions, samples, BATCH)
    running: dict[Future[list[Outcomes]], tuple[str, Row]] = {}
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        while True:
            free = 0 if time.monotonic() > end else 2 * processes - len(running)
            running |= {pool.submit(draw, *batch): batch[:2] for batch in islice(batches, free)}
            if not running:
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                for outcomes in done.result():
                    tallies[running[done]].add(outcomes)
                del running[done]
            tallies.write()
