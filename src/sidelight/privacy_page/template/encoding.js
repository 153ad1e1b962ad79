// From a person's own values to the row that the fit would have seen: the same rules as in training, in the same order.

function ruleOf(feature) {
  return feature.outside || (feature.levels ? "reject" : "clamp");
}

function isRanged(feature) {
  return typeof feature.lo === "number";
}

/** Compose a text as training does: one of more than 1000 characters stays as it is. */
function composed(text) {
  return [...text].length > 1000 ? text : text.normalize("NFC");
}

/** Make letters comparable as training does: without capitals, in composed letters. */
function folded(text) {
  const plain = [...composed(text)].map((sign) => (sign === "ı" ? sign : sign.toLowerCase().toUpperCase().toLowerCase()));
  return composed(plain.join(""));
}

const SPACES = /[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/; // as Python splits texts, and not \s

/** Give what is compared of a text. */
function keyOf(feature, text) {
  const plain = feature.casefold ? folded(text) : text;
  return feature.strip ? plain.split(SPACES).filter((part) => part !== "").join(" ") : plain;
}

/** Find the level that a text had in training; null where it had none. A null text is none of the levels. */
function levelOf(feature, text) {
  if (feature.levels.includes(text)) return text;
  const unknown = feature.unknown ?? null;
  if (text === null) return unknown;
  const key = keyOf(feature, text), same = (other) => keyOf(feature, other) === key;
  if (key === "" || (feature.missing_texts || []).some(same)) return feature.missing ?? null;
  const spelt = (level) => same(level) || (Object.hasOwn(feature.spellings || {}, level) && feature.spellings[level].some(same));
  return feature.levels.find(spelt) ?? unknown;
}

const LEVELS = 2 ** 20; // steps of a table's numbers from the middle of a range to its end

/** Cut a number of a table to steps: the operations of training, in its order, on its own floats. */
function codeOf(feature, used) {
  const scaled = (used - feature.middle) * feature.inverse_half;
  return Math.trunc(scaled * (LEVELS / Math.sqrt(Math.max(scaled * scaled, 1))));
}

/** Put one value in its columns. `outside` says that it lies beyond what is declared; `used` is what stands for it. */
function encodeFeature(feature, value) {
  const [off, on] = feature.to || [0, 1];
  if (feature.levels) {
    const place = feature.levels.indexOf(levelOf(feature, value));
    return { columns: feature.levels.map((_, i) => (i === place ? on : off)), outside: place < 0, used: null };
  }
  if ((feature.missing_values || []).includes(value)) return { columns: [off], outside: true, used: null, missing: true };
  if (!isRanged(feature)) return { columns: [value], outside: false, used: value };
  const used = Math.min(Math.max(value, feature.lo), feature.hi);
  const column = typeof feature.inverse_half === "number"
    ? (off + on) / 2 + codeOf(feature, used) * ((on - off) / 2 / LEVELS)
    : off + ((used - feature.lo) / (feature.hi - feature.lo)) * (on - off);
  return { columns: [column], outside: used !== value, used };
}

function encodeLabel(label, value) {
  if (label.classes) return label.classes.indexOf(value);
  if (typeof label.negative === "string") return value === label.positive ? 1 : value === label.negative ? -1 : NaN;
  return Math.min(Math.max(value, label.lo), label.hi);
}

function largestOf(columns) {
  return columns.reduce((largest, entry) => Math.max(largest, Math.abs(entry)), 0);
}

/** Give the Euclidean norm; squares cannot overflow. */
function normOf(columns) {
  const largest = largestOf(columns);
  return largest === 0 ? 0 : largest * Math.sqrt(columns.reduce((total, entry) => total + (entry / largest) ** 2, 0));
}

/** Bring a row to its allowed length, without overflow. */
function boundRow(columns, policy, limit) {
  const largest = largestOf(columns);
  if (largest === 0) return columns;
  const scaled = columns.map((entry) => entry / largest);
  const full = limit / normOf(scaled);
  return largest > full || policy === "normalize" ? scaled.map((entry) => entry * full) : columns;
}

/**
 * Encode a whole row: ranges, levels, the norm bound, the constant column last.
 * `values` has one number or text for each feature, in their order; `label` is the outcome.
 */
function encodeRow(report, values, label) {
  const { features, row_policy: policy, data_norm: limit, intercept_value: constant } = report.encoding;
  const parts = features.map((feature, i) => encodeFeature(feature, values[i]));
  const raw = parts.flatMap((part) => part.columns), length = normOf(raw);
  const columns = [...boundRow(raw, policy, limit)];
  if (typeof constant === "number") columns.push(constant);
  return {
    columns,
    length,
    tooLong: length > limit * (1 + 1e-12),
    parts,
    refused: parts.flatMap((part, i) => (part.missing || (part.outside && ruleOf(features[i]) === "reject") ? [i] : [])),
    target: encodeLabel(report.encoding.label, label),
  };
}
