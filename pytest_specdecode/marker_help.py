"""What the markers take, in one line each; apart from their parsing, since every pytest run registers it."""

from __future__ import annotations

DOCS = {
    "speculative": "speculative(steps, *, algorithm=None, topk=1, draft_tokens=None, **engine_args): "
    "run with each of these numbers of speculation steps; 0 = no speculation",
    "concurrency": "concurrency(*levels): measure at each of these numbers of requests in flight",
    "gate": 'gate(tolerance="5%", margin="1%", metric="tok_s", floor={"tok_s": 180}): '
    "what `measurement >= baseline` asks for",
}
