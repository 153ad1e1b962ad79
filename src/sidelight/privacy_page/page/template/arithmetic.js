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
  const { sigma, lambda, mu_out: mu, slack, loss, theta } = report;
  const x = row.columns, r = normOf(x);
  const out = mu ** 2 / 2 + mu * (typeof report.q_out === "number" ? report.q_out : report.q);
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
      ["the noise of the last step, the same for everybody", out],
    ],
  };
}
