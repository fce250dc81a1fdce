"""Put the stand-in kernels beside an installed SGLang and edit three installed files, so that it speculates
on a CPU. Run by the Python of that environment; safe to run twice.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
import sysconfig
from pathlib import Path

WANTED = "0.5.23"
MARK = "# stand-in"
SITE = Path(sysconfig.get_paths()["purelib"])

VERIFY = f"""
        _seq, _pre, _ext = (  {MARK}
            forward_batch.seq_lens, forward_batch.extend_prefix_lens, forward_batch.extend_seq_lens
        )
        if forward_batch.forward_mode.is_target_verify():
            _pre = forward_batch.seq_lens
            _ext = torch.full_like(_pre, forward_batch.spec_info.draft_token_num)
            _seq = _pre + _ext
        self._run_sdpa_forward_extend("""
"""A batch that verifies has no extend_* fields: its n draft tokens follow each prefix."""

DRAFT = (
    '            "torch_native": lambda: __import__("sgl_kernel.torch_native_draft", fromlist=["_"])'
    f".%s(self),  {MARK}\n"
)
DECLARED = f"""
if not torchvision.extension._has_ops():  {MARK}
    _declared = torch.library.Library("torchvision", "FRAGMENT")
    for _op in ("nms", "qnms"):
        _declared.define(_op + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


"""
"""torchvision is imported and not used; its compiled ops want a CUDA build of torch."""

EDITS = {
    "sglang/srt/layers/attention/torch_native_backend.py": [
        (
            "            causal = False\n\n        self._run_sdpa_forward_extend(",
            "            causal = False\n" + VERIFY,
        ),
        (
            "            forward_batch.seq_lens,\n            forward_batch.extend_prefix_lens,\n"
            "            forward_batch.extend_seq_lens,\n",
            "            _seq,\n            _pre,\n            _ext,\n",
        ),
    ],
    "sglang/srt/speculative/draft_utils.py": [
        (line, DRAFT % name + line)
        for name, line in (
            ("decode_backend", '            "intel_amx": self._create_intel_amx_decode_backend,\n'),
            ("extend_backend", '            "intel_amx": self._create_intel_amx_prefill_backend,\n'),
        )
    ],
    "torchvision/_meta_registrations.py": [
        (line, DECLARED + line) for line in ('@torch.library.register_fake("torchvision::nms")\n',)
    ],
}


def main() -> None:
    have = importlib.metadata.version("sglang")
    if have != WANTED:
        sys.exit(f"sglang {have} is installed; these edits are for {WANTED}")
    kernels = SITE / "sgl_kernel"
    if kernels.exists() and "stand-in" not in (kernels / "__init__.py").read_text():
        sys.exit(f"{kernels} is a real sgl_kernel; it is not overwritten")
    shutil.copytree(Path(__file__).with_name("sgl_kernel"), kernels, dirs_exist_ok=True)
    for name, pairs in EDITS.items():
        edit(SITE / name, pairs)


def edit(path: Path, pairs: list[tuple[str, str]]) -> None:
    text = path.read_text()
    if MARK in text:
        return
    for old, new in pairs:
        if text.count(old) != 1:
            sys.exit(f"{path}: found {text.count(old)} times, expected once: {old!r}")
        text = text.replace(old, new)
    path.unlink()  # an installer may share the file with its cache
    path.write_text(text)


if __name__ == "__main__":
    main()
