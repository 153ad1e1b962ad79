// Numbers and sentences as people read them. What bounds from above is rounded up, never down.

function raised(value, decimals) {
  const scale = 10 ** decimals;
  return (Math.ceil(value * scale * (1 - 1e-12)) / scale).toFixed(decimals);
}

function lowered(value, decimals) {
  const scale = 10 ** decimals;
  return (Math.floor(value * scale * (1 + 1e-12)) / scale).toFixed(decimals);
}

/** Write a bound: three decimals, fewer where they say nothing. */
function boundText(bound) {
  return raised(bound, bound < 10 ? 3 : bound < 100 ? 1 : 0);
}

/** Write a number with its public digits, without noise in the last ones. */
function plainNumber(value) {
  if (!Number.isFinite(value)) return "more than 10³⁰⁸";
  if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e15)) return powerText(value, 4);
  return Number(value.toPrecision(10)).toLocaleString("en", { maximumFractionDigits: 14 });
}

/** Write what was promised, rounded up: one more in the last digit where rounding went down. */
function promisedNumber(value) {
  const digits = Math.abs(value) < 1e-4 || Math.abs(value) >= 1e15 ? 4 : 10;
  const [head, power] = value.toExponential(digits - 1).split("e");
  const near = Number(`${head}e${power}`);
  return plainNumber(near < value - 1e-12 * Math.abs(value) ? Number(`${(Number(head) + 10 ** (1 - digits)).toFixed(digits - 1)}e${power}`) : near);
}

function powerText(value, digits) {
  const [head, power] = value.toExponential(digits - 1).split("e");
  return (Number(head) === 1 ? "" : `${Number(head)} × `) + powerOfTen(Number(power));
}

function powerOfTen(power) {
  return "10" + String(power).replace(/[-\d]/g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
}

/** Write e^bound, rounded up; more digits where the factor is close to 1. */
function factorText(bound) {
  const factor = Math.exp(bound);
  if (bound > 690) return "more than 10²⁹⁹";
  if (factor >= 1e6) return powerText(factor * (1 + 5e-3), 3);
  if (factor >= 100) return Math.ceil(factor).toLocaleString("en");
  const decimals = factor >= 10 ? 1 : factor >= 1.1 ? 2 : factor >= 1.01 ? 3 : 4;
  return raised(factor, decimals);
}

const ROUND = { 10: "ten", 100: "a hundred", 1e3: "a thousand", 1e4: "ten thousand", 1e5: "a hundred thousand", 1e6: "a million", 1e7: "ten million", 1e8: "a hundred million", 1e9: "a billion", 1e10: "ten billion", 1e11: "a hundred billion", 1e12: "a trillion" };

/** Write a small probability as "one in a million"; what is not round becomes a slightly larger probability. */
function chanceText(probability) {
  const times = 1 / probability, near = Math.round(times);
  const whole = Math.abs(times - near) <= 1e-12 * times ? near : Math.floor(times);
  if (whole >= 1e15) return `one in ${powerOfTen(Math.floor(-Math.log10(probability)))}`;
  return whole >= 2 ? `one in ${ROUND[whole] || whole.toLocaleString("en")}` : `${raised(100 * probability, 0)} %`;
}

/** After the model was seen: the least and the most that somebody can believe who believed `before`. */
function beliefs(before, bound) {
  const odds = before / (1 - before);
  const after = (log) => 1 / (1 + Math.exp(-log) / odds);
  return { low: after(-bound), high: after(bound) };
}

function percentUp(share) {
  const text = raised(100 * share, 1);
  return text === "100.0" ? "100 %" : `${text} %`;
}

function percentDown(share) {
  const text = lowered(100 * share, 1);
  return text === "0.0" ? "0 %" : `${text} %`;
}

function listText(names, limit) {
  const shown = names.slice(0, limit).map((name) => `“${shownText(name)}”`);
  const rest = names.length - shown.length;
  if (rest > 0) return `${shown.join(", ")} and ${rest} more`;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown[shown.length - 1]}`;
}

/** The sentence for one person. */
function personSentence(report, bound) {
  const chance = chanceText(report.rho);
  return `Except with probability ${chance}, seeing this model changes nobody’s odds about whether you were in the data by more than a factor ${factorText(bound)}.`;
}

function scopeSentence(report) {
  if (report.scope === "everyone") return "It holds for every possible row at once, even for one that was chosen after seeing the model.";
  if (report.scope === "all-n") return `It holds for ${report.n_public.toLocaleString("en")} people at once, each with a row that was fixed before the noise was drawn, as your own was.`;
  return "It holds for each person by themselves whose row was fixed before the noise was drawn, as your own was.";
}

/** What this is, and what it is not. */
function aboutLists(report) {
  const { epsilon, delta } = report.guarantee;
  const chance = chanceText(report.rho);
  const is = [
    "A bound, made for you: the real change of the odds is at most this, with the exception named below, and usually far smaller.",
    "About one question only: was this row in the data?",
    `Right except with probability ${chance}. ${scopeSentence(report)}`,
    report.data_dependent
      ? "Worked out from your row, the published model and extra published numbers that were paid for with privacy. Their price for you is part of your bound."
      : "Free. It is worked out from your row and from what was published already, so looking costs nobody any privacy, however many people look.",
    report.mechanism !== "objective-perturbation"
      ? "About somebody who sees a little more than was published: every noisy sum of the fit before it was rounded. For the published numbers alone the bound need not hold in every single case."
      : "About somebody who sees a little more than was published: the exact solution of the fit, and then the noise of the last step. For the published numbers alone the bound need not hold in every single case.",
  ];
  const isNot = [
    `Not the guarantee. That one (ε = ${promisedNumber(epsilon)}, δ = ${promisedNumber(delta)}) was promised to everybody before the model was made. The two are different promises; neither replaces the other.`,
    "Not about what the model says of people like you. If it shows that smokers fall ill more often, it says so about a smoker who was never in the data, too.",
    `Not a certainty about this one model. The “${chance}” counts all draws of the noise that could have come out, not only those that lead to the model you see.`,
  ];
  if (report.scope !== "everyone") isNot.push("Not for a row that somebody made up after looking at the model. Enter your real row.");
  isNot.push(
    "Not for several rows of one person, which this page does not cover. If you look at several models, add the bounds, and the probabilities too.",
  );
  return { is, isNot };
}
