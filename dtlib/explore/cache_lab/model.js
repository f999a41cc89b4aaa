// What is kept of one sequence of `seq` tokens, in GB, by four kinds of attention.
function keptOf({ layers, head_dim, rope_dim, element_bytes }, { heads, groups, window, latent }, seq) {
  const each = (layers * element_bytes) / 1e9;
  const kept = Math.min(groups, heads);
  return {
    plain: 2 * heads * head_dim * seq * each,
    grouped: 2 * kept * head_dim * seq * each,
    windowed: 2 * kept * head_dim * Math.min(seq, window) * each,
    latents: (latent + rope_dim) * seq * each,
  };
}
