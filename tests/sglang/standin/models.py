"""Models made on the spot: models.py FOLDER → FOLDER/tiny, FOLDER/target, FOLDER/draft, in Hugging Face form.

Random Llamas with a tokenizer of their own. Greedy decoding of ``tiny`` soon repeats itself, so n-gram drafts
are accepted. ``target`` has layers that add little after its first, which is ``draft``: it drafts well.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 2048
WEAK = 0.1
"""What the later layers of ``target`` count."""


def tokenizer() -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    bpe.train(sorted(map(str, Path(sysconfig.get_paths()["stdlib"]).glob("[a-d]*.py"))), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    fast.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
    return fast


def llama(hidden: int, layers: int) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=hidden,
            intermediate_size=3 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=hidden // 64,
            num_key_value_heads=hidden // 128,
            head_dim=64,
            max_position_embeddings=2048,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=1,
            tie_word_embeddings=False,
        )
    )


def pair(hidden: int, layers: int) -> tuple[LlamaForCausalLM, LlamaForCausalLM]:
    """A target and its first layer as the draft."""
    target, draft = llama(hidden, layers), llama(hidden, 1)
    with torch.no_grad():
        for layer in target.model.layers[1:]:
            layer.self_attn.o_proj.weight.mul_(WEAK)
            layer.mlp.down_proj.weight.mul_(WEAK)
    first = {
        name: value
        for name, value in target.state_dict().items()
        if not name.startswith("model.layers.") or name.startswith("model.layers.0.")
    }
    draft.load_state_dict(first, strict=True)
    return target, draft


def main(folder: Path) -> None:
    words = tokenizer()
    torch.manual_seed(0)
    tiny = llama(256, 4)
    torch.manual_seed(1)
    target, draft = pair(512, 12)
    for name, model in {"tiny": tiny, "target": target, "draft": draft}.items():
        model.to(torch.bfloat16).save_pretrained(folder / name)
        words.save_pretrained(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
