"""Recordings: answers that other evaluation tools have logged, one module per format.

    lm_eval.py      lm-evaluation-harness   samples_TASK_DATE.jsonl
    lmms_eval.py    lmms-eval               DATE_samples_TASK.jsonl
    vlmevalkit.py   VLMEvalKit              MODEL_DATA.xlsx, .tsv or .json, and its input DATA.tsv
    seedbench.py    SEED-Bench              MODEL.json of its released predictions
    inspect.py      Inspect                 .eval (a zip) and .json, EvalLog version 2
    lighteval.py    lighteval               details_TASK_DATE.parquet
    helm.py         HELM, VHELM             RUN/scenario_state.json
    opencompass.py  OpenCompass             predictions/MODEL/DATASET.json, or results with details
    vlcb.py         VLCB                    SPLIT-*.parquet of its release
    every_eval_ever.py  Every Eval Ever     UUID_samples.jsonl
    named_columns.py  any table             .json, .jsonl, .csv, .tsv, .xlsx, .parquet with columns of ids and answers

The dataset adapter takes questions from them and the `recorded` model answers, so both read through here. A format module has

    def names(path: Path) -> frozenset[tuple[str, str]] | None
        The (run, task) pairs that a file may be called by; None where the file is not of this format. Reads its head only.
    def read(path: Path, how: How) -> Iterator[Record | Fault]
        Its rows in order, one in memory at a time. A row that is not as the format has it is a Fault, never a guess.

The files are other people's: nothing in them is run or unpacked to disk, and lines, cells and archive members have a size
beyond which they are refused.
"""
