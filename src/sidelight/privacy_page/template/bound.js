// The bound of one person: the formulas of the reference implementation in Python, in the same order of operations.

const expit = (z) => 1 / (1 + Math.exp(-z)); // an exponential that runs away gives 0 or 1, which is right
const clamp = (z, low, high) => Math.min(Math.max(z, low), high);

function dot(a, b) {
  let total = 0;
  for (let i = 0; i < b.length; i++) total += a[i] * b[i];
  return total;
}

function sechSquared(z) {
  const decay = Math.exp(-2 * Math.abs(z));
  return (4 * decay) / (1 + decay) ** 2;
}

/**
 * Enclose slope and curvature over every exact minimum that the published one leaves possible, |u' - u| <= h:
 * f'·‖x‖ from `low` to `high`, f''·‖x‖² from `bendLow` to `bendHigh`.
 */
function reachOf(loss, u, y, r, h) {
  const [low, high, bendLow, bendHigh] = REACHES[loss.name](loss, u, y, r, h);
  return {
    low,
    high,
    steepest: Math.max(Math.abs(low), Math.abs(high)),
    flattest: low * high <= 0 ? 0 : Math.min(Math.abs(low), Math.abs(high)),
    bendLow,
    bendHigh,
  };
}

const REACHES = {
  logistic(loss, u, y, r, h) {
    const weight = loss.weights[y > 0 ? "1" : "-1"], size = Math.abs(u);
    const slope = (s) => -y * weight * expit(-y * (u + s)) * r, bend = (z) => weight * expit(z) * expit(-z) * r * r;
    return [slope(-h), slope(h), bend(size + h), bend(Math.max(size - h, 0))];
  },
  "smoothed-hinge"(loss, u, y, r, h) {
    const w = loss.width, off = Math.abs(1 - y * u);
    const slope = (s) => -y * clamp((1 + w - y * (u + s)) / (2 * w), 0, 1) * r, bend = (z) => (z < w ? (r * r) / (2 * w) : 0);
    return [slope(-h), slope(h), bend(off + h), bend(off - h)];
  },
  "log-cosh"(loss, u, y, r, h) {
    const error = u - y, size = Math.abs(error), kappa = loss.kappa;
    const slope = (s) => kappa * Math.tanh((error + s) / kappa) * r, bend = (z) => sechSquared(z / kappa) * r * r;
    return [slope(-h), slope(h), bend(size + h), bend(Math.max(size - h, 0))];
  },
  huber: (loss, u, y, r, h) => cutReach(u - y, loss.kappa * r, r, h),
  "squared-clipped": (loss, u, y, r, h) => cutReach(u - y, loss.clip, r, h),
  poisson(loss, u, y, r, h) {
    const [least, most] = [u - h, u + h].map((z) => Math.exp(Math.min(z, 700)));
    const pull = (rate) => (rate - y) * r, clip = loss.clip;
    const outside = pull(most) <= -clip || pull(least) >= clip, inside = pull(least) > -clip && pull(most) < clip;
    const bends = [inside ? least * r * r : 0, outside ? 0 : Math.min(most * r, y * r + clip) * r];
    return [clamp(pull(least), -clip, clip), clamp(pull(most), -clip, clip), ...bends];
  },
};

/** A slope that is the error itself, cut so that |f'|·‖x‖ <= cut. */
function cutReach(error, cut, r, h) {
  const slope = (s) => clamp((error + s) * r, -cut, cut), bend = (z) => (z * r < cut ? r * r : 0);
  return [slope(-h), slope(h), bend(Math.abs(error) + h), bend(Math.abs(error) - h)];
}

/** Bound 1 - p_y from above: the logit of the person's own class lowered by h, all others raised. */
function awayOf(logits, own, h) {
  const others = logits.filter((_, k) => k !== own), largest = Math.max(...others);
  const together = largest + Math.log(others.reduce((total, u) => total + Math.exp(u - largest), 0));
  return expit(together - logits[own] + 2 * h);
}

/** Say how many σ the noise along a row may reach; for everyone at once, through its norm or its largest entry. */
function noiseFactor(report, x, r) {
  if (typeof report.q_axis !== "number" || r === 0) return report.q;
  return Math.min(report.q, (x.reduce((total, entry) => total + Math.abs(entry), 0) * report.q_axis) / r);
}

/** Bound the loss for an encoded row. `parts` are words and numbers that add up to `bound`. */
function personBound(report, row, member) {
  if (report.mechanism === "descent") return descentBound(report, row);
  if (report.mechanism === "additive") return additiveBound(report, row);
  const { sigma, lambda, mu_out: mu, slack, loss, theta } = report;
  const x = row.columns, r = normOf(x);
  const before = typeof report.beforehand === "number" ? report.beforehand : 0;
  const out = mu ** 2 / 2 + mu * (typeof report.q_out === "number" ? report.q_out : report.q) + before;
  const factor = noiseFactor(report, x, r);
  let bent, steep;
  if (loss.name === "softmax") {
    const classes = theta.length, away = awayOf(theta.map((each) => dot(each, x)), row.target, r * slack);
    const weight = loss.weights ? loss.weights[row.target] : 1;
    const trace = weight * Math.min(1 - 1 / classes, 2 * away) * r * r;
    bent = (classes - 1) * Math.log1p(trace / ((classes - 1) * lambda));
    steep = Math.SQRT2 * weight * away * r;
  } else {
    const reach = reachOf(loss, dot(theta, x), row.target, r, r * slack);
    if (report.data_dependent) return paidBound(report, x, r, reach, member, out);
    bent = Math.log1p(reach.bendHigh / lambda);
    steep = reach.steepest;
  }
  const square = steep ** 2 / (2 * sigma ** 2), noise = (steep * factor) / sigma;
  return {
    bound: bent + square + noise + out,
    parts: [
      ["how far your row bends the fit", bent],
      ["how hard your row pulls at the fit", square],
      ["how far the noise may lie in the direction of your row", noise],
      [before ? "the last step and what was released before the fit, the same for everybody" : "the noise of the last step, the same for everybody", out],
    ],
  };
}

// From a paid report: intervals from a noisy gradient and a noisy Hessian, plus what those releases cost.

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
