"""The baseline: MLA decode in PyTorch, eager, bf16, with as few passes over the scores as eager allows."""
import functools
import sys

try:
    import torch
except ImportError as error:
    raise ImportError(f"the baseline of mla-decode needs PyTorch for {sys.executable} ({error})") from error

WIDTH = 512


@functools.lru_cache(maxsize=None)
def numbers(count, device):
    return torch.arange(count, device=device, dtype=torch.int32)


def marathon_run(tensors, dims, host, workspace):
    batch, rows, keys = dims["B"], dims["Q"] * dims["H"], dims["S"]
    depth = WIDTH + dims["R"]
    latent, lengths = tensors["latent"], tensors["lengths"]
    query = tensors["q"].view(batch, rows, depth)
    is_behind = (numbers(keys, latent.device) >= lengths[:, None]).unsqueeze(1)
    # The scale rides on the product; with beta = 0 the first argument is only a shape.
    score = torch.baddbmm(query[:, :1, :1], query, latent.transpose(1, 2), beta=0,
                          alpha=depth ** -0.5)
    score.masked_fill_(is_behind, float("-inf"))
    p = torch.softmax(score, -1)
    out = tensors["o"].view(batch, rows, WIDTH)
    torch.bmm(p, latent[:, :, :WIDTH], out=out)
    # Where there is no key, softmax is 0 / 0 and the answer 0.
    is_empty = (lengths <= 0)[:, None]
    out.masked_fill_(is_empty[:, :, None], 0.0)
    # log Σ exp(s) = s - log p at any key; at the first it costs no pass.
    lse = score[:, :, 0].float() - p[:, :, 0].float().log()
    tensors["lse"].view(batch, rows).copy_(lse.masked_fill_(is_empty, 0.0))
