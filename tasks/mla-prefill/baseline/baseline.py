"""The baseline: MLA prefill in PyTorch, eager, bf16, with as few passes over the scores as eager allows."""
import functools
import sys

try:
    import torch
except ImportError as error:
    raise ImportError(f"the baseline of mla-prefill needs PyTorch for {sys.executable} ({error})") from error

WIDTH = 512


@functools.lru_cache(maxsize=None)
def numbers(count, device):
    return torch.arange(count, device=device, dtype=torch.int32)


def marathon_run(tensors, dims, host, workspace):
    batch, heads, tokens, keys = dims["B"], dims["H"], dims["T"], dims["S"]
    depth, offset = WIDTH + dims["R"], dims["offset"]
    latent = tensors["latent"]
    query = tensors["q"].view(batch, heads * tokens, depth)
    # The scale rides on the product; with beta = 0 the first argument is only a shape.
    score = torch.baddbmm(query[:, :1, :1], query, latent.transpose(1, 2), beta=0,
                          alpha=depth ** -0.5)
    if dims["causal"]:
        last = numbers(tokens, latent.device) + offset
        is_unseen = numbers(keys, latent.device) > last[:, None]
        score.view(batch, heads, tokens, keys).masked_fill_(is_unseen, float("-inf"))
    p = torch.softmax(score, -1)
    out = tensors["o"].view(batch, heads * tokens, WIDTH)
    torch.bmm(p, latent[:, :, :WIDTH], out=out)
    # log Σ exp(s) = s - log p at any key; at the first it costs no pass.
    lse = score[:, :, 0].float() - p[:, :, 0].float().log()
    tensors["lse"].view(batch, heads * tokens).copy_(lse)
    if dims["causal"] and offset < 0:  # softmax of no key is 0 / 0 and the answer 0
        tensors["o"][:, :, :-offset] = 0
        tensors["lse"][:, :, :-offset] = 0
