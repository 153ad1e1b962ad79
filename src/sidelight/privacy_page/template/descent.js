// The bound of one person from the path of a descent: the formulas of stepwise_reports.py, in the same order.

const LARGEST_Z = 256, ERROR_SLACK = 2 ** -13, STEP = 1 / 256;

/** Bound the length of the loss's derivative in its predictors. */
function descentError(loss, predicted, target, slack) {
  if (loss.name === "squared") return Math.abs(predicted[0] - (target - loss.middle) / loss.half) + slack + ERROR_SLACK;
  if (loss.name === "logistic") {
    const weight = loss.weights ? loss.weights[target > 0 ? 1 : 0] : 1;
    return weight / (1 + Math.exp(clamp(target * predicted[0] - slack - STEP, -700, 700))) + ERROR_SLACK;
  }
  const largest = Math.max(...predicted), parts = predicted.map((u) => Math.exp(u - largest));
  const sum = parts.reduce((total, part) => total + part, 0);
  const others = parts.map((part, k) => (k === target ? 0 : part / sum));
  const away = others.reduce((total, share) => total + share, 0);
  const length = Math.sqrt(away ** 2 + dot(others, others)) * Math.exp(Math.min(2 * (slack + STEP), 700));
  return (loss.weights ? loss.weights[target] : 1) * length + Math.sqrt(predicted.length) * ERROR_SLACK;
}

/** Add up the squares of how far a row moves each release, in units of its noise. */
function pathVariance(report, columns, target) {
  const x = columns.map((entry) => entry / report.encoding.data_norm), d = x.length;
  const constant = report.map ? 1 : 0.5;
  let z = x;
  if (report.map) {
    z = x.map((_, j) => {
      let total = 0;
      for (let i = 0; i < d; i++) total += (x[i] - report.centre[i]) * report.map[i][j];
      return clamp(total, -LARGEST_Z, LARGEST_Z);
    });
  }
  const size = Math.sqrt(dot(z, z) + (report.intercept ? constant ** 2 : 0)) + report.row_slack;
  let total = ((report.mu_gram * (dot(x, x) + 0.25)) / 1.25) ** 2 + report.mu_count ** 2;
  for (const point of report.points) {
    const slopes = point.map((each) => each.slice(0, d));
    const slack = report.row_slack * Math.sqrt(Math.max(...slopes.map((each) => dot(each, each))));
    const predicted = slopes.map((each, k) => dot(each, z) + (report.intercept ? point[k][d] * constant : 0));
    const length = Math.min(size * descentError(report.loss, predicted, target, slack), report.clip);
    total += ((length / report.clip) * report.mu_step) ** 2;
  }
  return total;
}

/** Bound the loss of the whole transcript. */
function descentBound(report, row) {
  return transcriptBound(report, pathVariance(report, row.columns, row.target));
}

/** Give the bound for the squares of how far a row moves all releases. */
function transcriptBound(report, variance) {
  const noise = Math.min(...report.rates.map((rate) => (rate * variance) / 2 + report.log_term / rate));
  return {
    bound: variance / 2 + noise + report.beforehand,
    parts: [
      ["how hard your row pulls at every step of the fit", variance / 2],
      ["how far the noise may lie in the directions of your row", noise],
      ["the choice between predictions before the fit, the same for everybody", report.beforehand || null],
    ],
  };
}
