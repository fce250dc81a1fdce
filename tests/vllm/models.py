"""Tiny random Llamas in Hugging Face form, made in seconds; runs under the engine's Python.

    python models.py FOLDER

makes ``FOLDER/tiny`` (4 M parameters), ``FOLDER/target`` (5 M) and ``FOLDER/draft`` (2 M: the target's
first layer). Greedy text of random weights soon repeats itself, so drafts from the text are accepted; the
target's later layers add little to its first, so the draft is right now and then. What they write is noise.
"""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 2048
HEAD = 64
SPECIAL = ("<s>", "</s>", "<unk>")
CONTEXT_TOKENS = 2048
CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"

Weights = dict[str, NDArray[np.float16]]


def tokenizer() -> Any:
    """A byte-level BPE tokenizer of 2048 tokens, trained on modules of the standard library."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    texts = [
        str(Path(sysconfig.get_paths()["stdlib"], name)) for name in ("argparse.py", "typing.py", "ast.py")
    ]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=list(SPECIAL),
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    return made


def weights(hidden: int, layers: int, seed: int, later: float = 1.0) -> Weights:
    """Random weights; what each layer but the first adds is scaled by ``later``."""
    dice = np.random.default_rng(seed)

    def normal(*shape: int) -> NDArray[np.float32]:
        return dice.standard_normal(shape, dtype=np.float32) * np.float32(0.02)

    heads, kv, inner = hidden // HEAD, max(1, hidden // 128), 3 * hidden
    made: dict[str, NDArray[np.float32]] = {
        "model.embed_tokens.weight": normal(VOCABULARY, hidden),
        "lm_head.weight": normal(VOCABULARY, hidden),
        "model.norm.weight": np.ones(hidden, np.float32),
    }
    for layer in range(layers):
        at, scale = f"model.layers.{layer}.", np.float32(later if layer else 1.0)
        made |= {
            at + "input_layernorm.weight": np.ones(hidden, np.float32),
            at + "post_attention_layernorm.weight": np.ones(hidden, np.float32),
            at + "self_attn.q_proj.weight": normal(heads * HEAD, hidden),
            at + "self_attn.k_proj.weight": normal(kv * HEAD, hidden),
            at + "self_attn.v_proj.weight": normal(kv * HEAD, hidden),
            at + "self_attn.o_proj.weight": normal(hidden, heads * HEAD) * scale,
            at + "mlp.gate_proj.weight": normal(inner, hidden),
            at + "mlp.up_proj.weight": normal(inner, hidden),
            at + "mlp.down_proj.weight": normal(hidden, inner) * scale,
        }
    return {name: value.astype(np.float16) for name, value in made.items()}


def first_layer(of: Mapping[str, NDArray[np.float16]]) -> Weights:
    """The model's embeddings, head and first layer: its draft."""
    return {
        k: v for k, v in of.items() if not k.startswith("model.layers.") or k.startswith("model.layers.0.")
    }


def save(folder: Path, made: Weights, words: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    hidden = made["model.norm.weight"].size
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_hidden_layers": sum(name.endswith("q_proj.weight") for name in made),
        "num_attention_heads": hidden // HEAD,
        "num_key_value_heads": max(1, hidden // 128),
        "head_dim": HEAD,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT_TOKENS,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    names = {"bos_token": SPECIAL[0], "eos_token": SPECIAL[1], "unk_token": SPECIAL[2]}
    tokens = {"tokenizer_class": "PreTrainedTokenizerFast", **names, "chat_template": CHAT}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens, indent=2))
    words.save(str(folder / "tokenizer.json"))
    save_file(made, str(folder / "model.safetensors"), metadata={"format": "pt"})


def main(folder: Path) -> None:
    words = tokenizer()
    save(folder / "tiny", weights(256, 4, seed=0), words)
    target = weights(256, 6, seed=1, later=0.1)
    save(folder / "target", target, words)
    save(folder / "draft", first_layer(target), words)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
