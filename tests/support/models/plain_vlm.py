"""The oracle of the inference engine: one prompt at a time, no batch, no padding, no cache, everything read again for every token."""

import numpy as np
import PIL.Image
import torch


class Plain:
    """A model's own processor and module, called as their authors show it."""

    def __init__(self, model):
        self.processor, self.tokenizer, self.module, self.stops = model.processor, model.tokenizer, model.module, model.stops
        self.both_ways = model.module.config.model_type == "paligemma"

    def render(self, turns):
        return self.processor.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)

    def logits(self, prompt, image, tokens=()):
        """Raw logits (1 + tokens, vocabulary) of the positions that predict the given tokens and one more."""
        return self.read(prompt, image, tokens).logits[0, -1 - len(tokens) :].double()

    def hidden_states(self, prompt, image, tokens):
        """Of every layer (positions, width), embeddings first."""
        return [states[0] for states in self.read(prompt, image, tokens, output_hidden_states=True).hidden_states]

    def inputs(self, prompt, image):
        """What the processor makes of a prompt."""
        begins = self.tokenizer.bos_token
        special = {"add_special_tokens": False} if begins and prompt.startswith(begins) else {}
        images = None if image is None else [[image]]
        inputs = dict(self.processor(text=[prompt], images=images, return_tensors="pt", **special))
        inputs.pop("labels", None)
        return inputs

    def read(self, prompt, image, tokens=(), **also):
        """What the module gives for a prompt that these tokens follow."""
        inputs = self.inputs(prompt, image)
        shape = inputs["input_ids"].shape
        for name, value in list(inputs.items()):
            if isinstance(value, torch.Tensor) and value.shape == shape:
                own = [int(self.both_ways)] * len(tokens)  # a kind of their own, where the prompt is one that sees itself both ways
                more = {"input_ids": list(tokens), "attention_mask": [1] * len(tokens), "token_type_ids": own}.get(name, [0] * len(tokens))
                inputs[name] = torch.cat([value, torch.tensor([more], dtype=value.dtype).reshape(1, -1)], dim=1)
        if tokens and "cross_attention_mask" in inputs:  # Llama 3.2: what is written sees the pictures that the prompt's end sees
            seen = inputs["cross_attention_mask"]
            inputs["cross_attention_mask"] = torch.cat([seen, seen[:, -1:].expand(-1, len(tokens), -1, -1)], dim=1)
        network = self.module
        if image is None and hasattr(network, "text_model"):  # Kosmos-2 as a whole insists on a picture
            network, _ = network.text_model, inputs.pop("image_embeds_position_mask", None)
        with torch.no_grad():
            return network(**inputs, use_cache=False, **also)

    def generate(self, prompt, image, limit, choose=lambda step, logits: int(logits.argmax())):
        """Tokens, log-probabilities, entropies, first logits."""
        tokens, logprobs, entropies, first = [], [], [], None
        for step in range(limit):
            logits = self.logits(prompt, image, tokens)[-1]
            first = logits if first is None else first
            logp = logits - torch.logsumexp(logits, 0)
            token = choose(step, logits)
            tokens.append(token)
            logprobs.append(float(logp[token]))
            entropies.append(float(-(logp.exp() * logp).sum()))
            if token in self.stops:
                break
        return tokens, logprobs, entropies, first

    def follow(self, prompt, image, given, limit, choose=lambda step, logits: int(logits.argmax())):
        """What `generate` gives where it takes the given tokens, read in one pass; from the first that it would not take, it ends.

        So equal tokens mean that every given one was chosen, and that they end where they should.
        """
        tokens, logprobs, entropies, rows = [], [], [], self.logits(prompt, image, given)
        for step, logits in enumerate(rows[:limit]):
            logp = logits - torch.logsumexp(logits, 0)
            token = choose(step, logits)
            tokens.append(token)
            logprobs.append(float(logp[token]))
            entropies.append(float(-(logp.exp() * logp).sum()))
            if token in self.stops or tokens != list(given[: step + 1]):
                break
        return tokens, logprobs, entropies, rows[0]

    def text(self, tokens):
        return self.tokenizer.decode([t for t in tokens if t not in self.stops], skip_special_tokens=True).strip()

    def forced(self, prompt, image, tokens):
        """Log-probabilities of given tokens after a prompt."""
        logits = self.logits(prompt, image, tokens)[:-1]
        logp = logits - torch.logsumexp(logits, 1, keepdim=True)
        return logp.gather(1, torch.tensor(tokens)[:, None])[:, 0].tolist()

    def probability(self, prompt, image, words):
        """Of a next token that is one of these words, with or without a space before it."""
        probs = self.logits(prompt, image)[0].softmax(0)
        before = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        ids = set()
        for word in (gap + w for w in words for gap in ("", " ")):
            after = self.tokenizer(prompt + word, add_special_tokens=False)["input_ids"]
            if after[:-1] == before and after[-1] != self.tokenizer.unk_token_id:
                ids.add(after[-1])
        return float(probs[sorted(ids)].sum())


def picture(seed, size=(40, 40)):
    return PIL.Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def turn(role, text, image=False):
    return {"role": role, "content": [*([{"type": "image"}] if image else []), {"type": "text", "text": text}]}
