"""Random NLI classifiers, saved to disk as a published one would be."""

from pathlib import Path

import numpy as np

from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.runtime.settings import Settings

LABELS = ["contradiction", "neutral", "entailment"]
WORDS = """a an the no not is are there yes red green blue yellow purple gray cyan brown small large metal rubber cube cubes sphere spheres
cylinder cone cones object objects thing one two three four five 0 1 2 3 4 5 6 7 8 9 left right front behind of in on and what color shape
how many size material i do know it cannot be seen ? . , : '""".split()  # noqa: SIM905 - a text that people read


class Told:
    """Stands where a model of inference would: logits by premise and hypothesis."""

    def __init__(self, known, classes=3):
        self.known, self.asked, self.classes = known, [], classes

    def logits(self, pairs):
        self.asked += pairs
        return np.array([self.known[pair] for pair in pairs], dtype=float).reshape(-1, self.classes)


class Answered(EstimatorContext):
    """The context of estimators, whatever model of inference they name being `Told`."""

    def __init__(self, told):
        super().__init__(Settings(progress=False))
        self.told = told

    def nli(self, chosen, reads="contradiction"):
        return self.told


def pair_tokenizer(kind: str):
    """One token per word, byte by byte where a word is unknown; `kind`'s own frame around two texts."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    first, between, last = ("<s>", ["</s>", "</s>"], "</s>") if kind == "roberta" else ("[CLS]", ["[SEP]"], "[SEP]")
    special = list(dict.fromkeys([first, "[PAD]", last, "[UNK]"]))
    core = Tokenizer(models.BPE(unk_token="[UNK]"))
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    core.train_from_iterator(
        [" ".join(WORDS)] * 4,
        trainers.BpeTrainer(
            vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=special, show_progress=False
        ),
    )
    frame = f"{first} $A {' '.join(between)} $B{'' if kind == 'roberta' else ':1'} {last}{'' if kind == 'roberta' else ':1'}"
    core.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", pair=frame, special_tokens=[(t, core.token_to_id(t)) for t in special]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", cls_token=first, sep_token=last, model_max_length=128,
        model_input_names=["input_ids", "attention_mask"] if kind == "roberta" else ["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


def nli_model(folder: Path, kind: str = "deberta-v2", labels=LABELS, seed: int = 0, hidden: int = 32, layers: int = 2, spread: float = 0.3):
    """A sequence classifier of random weights, far from a coin toss, with its tokenizer."""
    import torch
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification, RobertaConfig, RobertaForSequenceClassification

    torch.manual_seed(seed)
    tokenizer = pair_tokenizer(kind)
    same = {
        "vocab_size": len(tokenizer), "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": max(2, hidden // 64),
        "intermediate_size": 4 * hidden, "pad_token_id": tokenizer.pad_token_id, "initializer_range": spread if hidden < 64 else 0.1,
        "id2label": dict(enumerate(labels)), "label2id": {n: i for i, n in enumerate(labels)},
    }  # fmt: skip
    if kind == "roberta":
        model = RobertaForSequenceClassification(RobertaConfig(max_position_embeddings=132, type_vocab_size=1, **same))
    else:
        model = DebertaV2ForSequenceClassification(
            DebertaV2Config(
                max_position_embeddings=512,
                relative_attention=True,
                position_buckets=256,
                norm_rel_ebd="layer_norm",
                share_att_key=True,
                pos_att_type="p2c|c2p",
                position_biased_input=False,
                type_vocab_size=0,
                **same,
            )
        )
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
