// The groups of a mesh along each axis, and which edges of their rings leave a node.

// The same as dtlib.mesh.Mesh: `axes` from the outermost to the innermost, ranks row by row.
function groupsAlong(axes, name) {
  const at = axes.findIndex((axis) => axis.name === name);
  const sizeOf = (some) => some.reduce((product, { size }) => product * size, 1);
  const stride = sizeOf(axes.slice(at + 1));
  const [{ size }, ranks] = [axes[at], sizeOf(axes)];
  return Array.from({ length: ranks }, (_, rank) => rank)
    .filter((rank) => Math.floor(rank / stride) % size === 0)
    .map((first) => Array.from({ length: size }, (_, i) => first + i * stride));
}

// Each rank passes on to the next one of its group, the last to the first.
const ringOf = (group) => group.map((rank, i) => [rank, group[(i + 1) % group.length]]);

const leaves = ([src, dst], perNode) => Math.floor(src / perNode) !== Math.floor(dst / perNode);

// What one axis has: its groups, their edges, and the bytes on those that leave a node.
function axisSeen(axes, axis, perNode) {
  const groups = groupsAlong(axes, axis.name);
  const edges = groups.flatMap(ringOf);
  const away = edges.filter((edge) => leaves(edge, perNode)).length;
  return { ...axis, groups, edges, away, bytes: away * axis.traffic };
}

const awayInAll = (axes, perNode) =>
  axes.reduce((sum, axis) => sum + axisSeen(axes, axis, perNode).bytes, 0);
