"""What torch computes in one kernel on a GPU, and in several on the machine that stands for it.

The numbers that are kept for the backward pass follow from the kernel, so these are the GPU's.
"""

import torch
from torch._subclasses.fake_tensor import FakeTensor

aten = torch.ops.aten
_HALVES = torch.float16, torch.bfloat16
# what CUDA's autocast computes in 32 bits, and the CPU's does not
IN_32_BITS = {
    "softmax", "log_softmax", "cross_entropy", "nll_loss", "layer_norm", "group_norm", "mse_loss",
    "binary_cross_entropy_with_logits", "kl_div", "l1_loss", "smooth_l1_loss", "huber_loss",
    "exp", "log", "pow", "rsqrt", "softplus", "logsumexp", "sum", "prod", "cumsum", "cumprod",
    "norm", "cosine_similarity",
}  # fmt: skip
_composite_rms_norm = torch.nn.functional.rms_norm


def in_32_bits(what):
    """A tensor of 16 bits in 32; anything else as it is."""
    half = isinstance(what, torch.Tensor) and what.dtype in _HALVES
    return what.float() if half else what


def attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """What scaled_dot_product_attention chooses on a GPU: a kernel that stores no scores.

    The one for 16 bits takes no mask; the other one has as many heads of keys as of queries.
    """
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
        query, key, value = (each.to(dtype) for each in (query, key, value))
    if attn_mask is None and query.dtype in _HALVES:
        kernel = aten._scaled_dot_product_flash_attention
        return kernel(query, key, value, dropout_p, is_causal, scale=scale)[0]
    if enable_gqa:
        more = query.shape[-3] // key.shape[-3]
        key, value = (each.repeat_interleave(more, -3) for each in (key, value))
    if attn_mask is not None:
        shape = (*query.shape[:-1], key.shape[-2])
        blocked = attn_mask.dtype == torch.bool
        attn_mask = attn_mask.to(query.dtype) if blocked else attn_mask
        attn_mask = attn_mask.expand(shape)
    kernel = aten._scaled_dot_product_efficient_attention
    return kernel(query, key, value, attn_mask, True, dropout_p, is_causal, scale=scale)[0]


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """The norm in one kernel, which keeps its input and a number per row, where types agree."""
    plain = isinstance(input, FakeTensor) and isinstance(weight, FakeTensor)
    if not plain or weight.dtype != input.dtype:
        return _composite_rms_norm(input, normalized_shape, weight, eps)
    return _RMSNorm.apply(input, weight)


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        rows = x.shape[: x.ndim - weight.ndim]
        ctx.save_for_backward(x, weight, x.new_empty(rows, dtype=torch.float32))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, _ = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(weight)
