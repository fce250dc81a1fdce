"""Draft attention for STANDALONE over SGLang's ``torch_native`` (top-k 1): one backend a draft step."""

from __future__ import annotations


class MultiStep:
    """SGLang asks for a container with one attention backend for each draft step but the last."""

    def __init__(self, model_runner, topk, num_steps):
        from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend

        class Step(TorchNativeAttnBackend):
            step = 0

            def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True, **_):
                held = forward_batch.seq_lens
                forward_batch.seq_lens = held + self.step + 1  # prefix and the draft tokens so far
                try:
                    return super().forward_decode(q, k, v, layer, forward_batch, save_kv_cache)
                finally:
                    forward_batch.seq_lens = held

        if topk != 1:
            raise ValueError("torch_native draft attention: only --speculative-eagle-topk 1")
        self.topk, self.speculative_num_steps, self.attn_backends = topk, num_steps, []
        for i in range(num_steps - 1):
            backend = Step(model_runner)
            backend.step = i
            self.attn_backends.append(backend)

    def init_forward_metadata(self, forward_batch):
        for backend in self.attn_backends:
            backend.init_forward_metadata(forward_batch)


def decode_backend(factory):
    steps = MultiStep(factory.draft_model_runner, factory.topk, factory.speculative_num_steps)
    return "torch_native", steps


def extend_backend(factory):
    from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend

    return "torch_native", TorchNativeAttnBackend(factory.draft_model_runner)
