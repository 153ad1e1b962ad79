// The bound from a paid report: intervals from a noisy gradient and a noisy Hessian, plus what those releases cost.

/** Give xᵀM⁻¹x by Cholesky, or null where M is not positive definite: the noise may have made it so. */
function quadratic(matrix, x) {
  const size = x.length, root = [], solved = [];
  let total = 0;
  for (let i = 0; i < size; i++) {
    const row = new Float64Array(size);
    for (let j = 0; j <= i; j++) {
      let entry = matrix[i][j];
      for (let k = 0; k < j; k++) entry -= row[k] * (j === i ? row[k] : root[j][k]);
      if (j === i && !(entry > 0)) return null;
      row[j] = j === i ? Math.sqrt(entry) : entry / root[j][j];
    }
    root.push(row);
    let value = x[i];
    for (let k = 0; k < i; k++) value -= row[k] * solved[k];
    solved.push(value / row[i]);
    total += solved[i] ** 2;
  }
  return total;
}

function combined(hessian, times, shift) {
  return hessian.map((row, i) => row.map((entry, j) => times * entry + (i === j ? shift : 0)));
}

/** Bound xᵀH⁻¹x from below and above. Every matrix (1-w)·λI + w·(Ĥ - κI) lies below H while ‖noise‖ <= κ. */
function leverage(report, x, r) {
  const { hessian, kappa, zeta } = report.data_dependent, lambda = report.lambda;
  let above = r ** 2 / lambda;
  if (!hessian) return [0, above];
  const stretch = Math.exp(zeta);
  for (const w of [lambda / (lambda + 2 * kappa), 0.5, 0.75, 1]) {
    const value = quadratic(combined(hessian, w, (1 - w) * lambda - w * kappa), x);
    if (value !== null) above = Math.min(above, stretch * value);
  }
  const highest = quadratic(combined(hessian, 1, kappa), x);
  return [highest === null ? 0 : Math.min(highest / stretch, above), above];
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
