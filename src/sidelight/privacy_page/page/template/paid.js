// The bound from a paid report: intervals from a noisy gradient and a noisy Hessian, plus what those releases cost.

/** Give the Cholesky root of a matrix, or null where it is not positive definite: the noise may have made it so. */
function rootOf(matrix) {
  const root = [];
  for (let i = 0; i < matrix.length; i++) {
    const row = new Float64Array(i + 1);
    for (let j = 0; j <= i; j++) {
      const other = j === i ? row : root[j];
      let entry = matrix[i][j];
      for (let k = 0; k < j; k++) entry -= row[k] * other[k];
      if (j === i && !(entry > 0)) return null;
      row[j] = j === i ? Math.sqrt(entry) : entry / other[j];
    }
    root.push(row);
  }
  return root;
}

/** Give xᵀM⁻¹x from the root of M. */
function quadratic(root, x) {
  const solved = new Float64Array(x.length);
  let total = 0;
  for (let i = 0; i < x.length; i++) {
    let value = x[i];
    for (let k = 0; k < i; k++) value -= root[i][k] * solved[k];
    solved[i] = value / root[i][i];
    total += solved[i] ** 2;
  }
  return total;
}

const knownRoots = new WeakMap(); // the same for everybody, so they are taken once

/** Give the roots of the matrices (1-w)·λI + w·(Ĥ - κI), which lie below H while ‖noise‖ <= κ, and that of Ĥ + κI. */
function rootsOf(report) {
  if (knownRoots.has(report)) return knownRoots.get(report);
  const { hessian, kappa } = report.data_dependent, lambda = report.lambda;
  const combined = (times, shift) => hessian.map((row, i) => row.map((entry, j) => times * entry + (i === j ? shift : 0)));
  const weights = [lambda / (lambda + 2 * kappa), 0.5, 0.75, 1];
  const roots = {
    lower: weights.map((w) => rootOf(combined(w, (1 - w) * lambda - w * kappa))).filter((root) => root !== null),
    upper: rootOf(combined(1, kappa)),
  };
  knownRoots.set(report, roots);
  return roots;
}

/** Bound xᵀH⁻¹x at the exact minimum from below and above. */
function leverage(report, x, r) {
  const { hessian, zeta } = report.data_dependent;
  const free = r ** 2 / report.lambda;
  if (!hessian) return [0, free];
  const { lower, upper } = rootsOf(report), stretch = Math.exp(zeta);
  const above = Math.min(free, ...lower.map((root) => stretch * quadratic(root, x)));
  return [upper === null ? 0 : Math.min(quadratic(upper, x) / stretch, above), above];
}

/** Enclose the term of the determinant, -log(1 + s·f''·μ). */
function curvature(report, r, reach, [below, above], sign) {
  const square = Math.max(r ** 2, 1e-300);
  const least = (reach.bendLow / square) * below, most = (reach.bendHigh / square) * above;
  if (sign === 1) return [-Math.log1p(most), -Math.log1p(least)];
  const free = Math.log1p(reach.bendHigh / report.lambda);
  const high = most < 1 ? Math.min(-Math.log1p(-most), free) : free;
  return [least < 1 ? Math.min(-Math.log1p(-least), high) : high, high];
}

function paidBound(report, x, r, reach, member, out) {
  const paid = report.data_dependent, own = report.sigma ** 2, extra = paid.sigma2 ** 2;
  const centre = r > 0 ? ((own / (own + extra)) * dot(paid.gradient, x)) / r : 0;
  const spread = ((report.sigma * paid.sigma2) / Math.sqrt(own + extra)) * paid.q;
  const levers = leverage(report, x, r);
  const signs = { yes: [-1], no: [1], unknown: [1, -1] }[member];
  const largest = signs.map((sign) => {
    const [below, above] = curvature(report, r, reach, levers, sign);
    const ends = [reach.low, reach.high].flatMap((slope) => [centre - spread, centre + spread].map((g) => (sign * slope * g) / own));
    const low = below + reach.flattest ** 2 / (2 * own) + Math.min(...ends);
    const high = above + reach.steepest ** 2 / (2 * own) + Math.max(...ends);
    return Math.max(Math.abs(low), Math.abs(high));
  });
  const fit = Math.max(...largest);
  const bends = paid.sigma3 ? reach.bendHigh ** 2 / (2 * paid.sigma3 ** 2) : 0;
  const size = Math.sqrt((reach.steepest / paid.sigma2) ** 2 + bends), overhead = size ** 2 / 2 + size * paid.q;
  return {
    bound: fit + overhead + out,
    parts: [
      ["the model itself", fit],
      ["the extra published numbers", overhead],
      ["the noise of the last step, the same for everybody", out],
    ],
  };
}
