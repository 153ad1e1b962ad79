// The bound of one person from the tables and the path of an additive model: stepwise_reports.py, in the same order.

const FINE_CELLS = 1024, ROUNDED_UP = 1 + 1e-9;

/** Find the fine cell of a number, which is a whole code, or the place of a level, of each feature of an encoded row. */
function fineCodes(report, columns) {
  let start = 0;
  return report.encoding.features.map((feature) => {
    const part = columns.slice(start, start + (feature.levels ? feature.levels.length : 1));
    start += part.length;
    if (feature.levels) return part.indexOf(Math.max(...part));
    const [low, high] = feature.to || [0, 1];
    const near = (((part[0] - low) / (high - low)) * 2 - 1) * LEVELS, code = Math.trunc(near + Math.sign(near) * 2 ** -20);
    return Math.min(Math.floor((code + LEVELS) / 2048), FINE_CELLS - 1);
  });
}

/** Add up the squares of how far a row moves counts, matrix and steps, in units of their noise. */
function curveVariance(report, columns, target) {
  const codes = fineCodes(report, columns);
  let square = 1, leading = 0;
  const told = report.constants.map((each) => [...each]);
  report.columns.forEach((column, j) => {
    const cell = column.cell[codes[j]];
    square += column.square[cell];
    leading += column.leading[cell];
    told.forEach((each, t) => each.forEach((_, k) => {
      each[k] += column.offset[codes[j]][k] + column.steps[t][cell][k];
    }));
  });
  const size = Math.sqrt(square) * ROUNDED_UP, largest = report.radius ** 2;
  const own = largest ? Math.min(leading * ROUNDED_UP, largest) / largest : 0;
  let total = (report.mu_gram * own) ** 2 + report.mu_count ** 2;
  report.clips.forEach((clip, t) => {
    const length = Math.min(size * descentError(report.loss, told[t], target, 0), clip);
    total += ((length / clip) * report.mu_step) ** 2;
  });
  return total;
}

/** Bound the loss of the whole transcript. */
function additiveBound(report, row) {
  const curves = curveVariance(report, row.columns, row.target);
  const variance = curves + (report.lines ? pathVariance(report.lines, row.columns, row.target) : 0);
  return transcriptBound(report, variance);
}
