"""How answers ended: counted by model and dataset, and no table where all ended by themselves."""

from qualm.registry.sample import GENERATIONS
from qualm.runners.reporting.endings import endings_table
from qualm.runners.runtime.records import write_table
from tests.runners.reporting.made_results import frame, made_results


def row(finish=None, no_answer=None, variant="clean", draw=0):
    return {"sample_id": "a", "variant": variant, "draw": draw, "finish": finish, "no_answer": no_answer}


def sheet(tmp_path, **rows):
    files = {}
    for name, of in rows.items():
        write_table(tmp_path / f"{name}.parquet", frame(of, GENERATIONS).to_arrow().cast(GENERATIONS), GENERATIONS, {})
        files[name] = str(tmp_path / f"{name}.parquet")
    return endings_table(made_results(inputs={"generations": {"gpt": files}}))


def test_greedy_answers_to_clean_inputs_are_counted_by_how_they_ended(tmp_path):
    held = "held back by the server's content filter"
    some = [row("length"), row("length"), row("refusal"), row(), row(None, held), row("length", variant="blur"), row("length", draw=1)]
    made = sheet(tmp_path, d=some, quiet=[row()])
    assert made.rows == [["gpt · d", "5", "2", "0", "1", f"1 {held}"]]
    assert len(made.header) == 6


def test_where_all_ended_by_themselves_there_is_no_table(tmp_path):
    assert sheet(tmp_path, d=[row(), row("length", draw=1)]) is None and endings_table(made_results()) is None
