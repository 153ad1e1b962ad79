// The part below the form: the answer, or what is still wanted for one, or why there is none.

const SCALE_WORDS = "Equal steps on this scale multiply the odds equally. At 0 the model says nothing about you; nobody’s bound can lie beyond the worst case. The line at ε is the guarantee that everybody got: the change stays left of it, except with probability δ. A bound made for one row may lie to the right of it, even where ε = 1: it holds except with a probability of its own, and about somebody who sees a little more than was published. Then the guarantee is the sharper of the two promises, and both hold.";
const CONTRADICTION = "This report contradicts itself: your bound lies beyond the worst case that it states. Please tell whoever published it, and trust neither number.";

let shownBound = null;

function showOnly(id) {
  for (const each of ["waiting", "refusal", "answer"]) byId(each).hidden = each !== id;
  for (const each of ["beliefs-part", "sum"]) byId(each).hidden = id !== "answer";
}

function showNothing() {
  shownBound = null;
  tellIn("scale-words", SCALE_WORDS, false);
  byId("bound").textContent = byId("odds").textContent = "–";
  drawScale(byId("scale"), report, null);
}

function showWaiting(wrong, empty) {
  const some = (fields) => (fields.length === 1 ? `the field ${listText([fields[0].name], 1)}` : `${fields.length} fields`);
  const untouched = empty.length === form.all.length;
  const words = untouched
    ? "Your answer will appear here as soon as all fields are filled in. Until then you see what holds for everybody."
    : wrong.length > empty.length
      ? `Please look at ${listText(wrong.filter((field) => !empty.includes(field)).map((field) => field.name), 3)} once more.`
      : `Still empty: ${some(empty)}.`;
  write("waiting", words);
  showOnly("waiting");
  if (shownBound !== null || byId("bound").textContent === "") showNothing();
}

function showRefusal(row) {
  const names = row.refused.map((i) => form.fields[i].name);
  const sure = row.refused.some((i) => report.encoding.features[i].outside === "reject" && !row.parts[i].missing);
  byId("refusal").textContent = sure
    ? `A row like this could not have been used, because of ${listText(names, 3)}. If this is your real row, it was not in the data.`
    : `This report has no bound for a row like this, because of ${listText(names, 3)}. Training may have counted your value as another one: ask whoever published the report.`;
  showOnly("refusal");
  showNothing();
}

function showAnswer(answer) {
  if (!Number.isFinite(answer.bound)) throw new RangeError("the bound is not a number");
  shownBound = answer.bound;
  byId("factor").textContent = `×\u2009${factorText(answer.bound)}`;
  byId("sentence").textContent = personSentence(report, answer.bound);
  byId("bound").textContent = boundText(answer.bound);
  byId("odds").textContent = `×\u2009${factorText(answer.bound)}`;
  showOnly("answer");
  const contradicts = answer.bound > report.maximum * (1 + 1e-6); // a maximum may have been written with few digits
  tellIn("scale-words", contradicts ? CONTRADICTION : SCALE_WORDS, contradicts);
  drawScale(byId("scale"), report, answer.bound);
  drawBeliefs(byId("beliefs"), answer.bound);
  const rows = answer.parts.filter(([, value]) => value !== null);
  byId("parts").replaceChildren(
    ...rows.flatMap(([words, value]) => [element("dt", {}, words), element("dd", {}, promisedNumber(value))]),
    element("dt", { class: "total" }, "your bound"),
    element("dd", { class: "total", id: "exact-bound" }, String(answer.bound)),
  );
}

// The pictures, drawn as SVG for the width that is there, so that letters keep their size on a telephone.

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children.map((child) => (typeof child === "string" ? shownText(child) : child)));
  return made;
}

function shape(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, typeof value === "number" ? value.toFixed(1) : value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function canvas(width, height, name) {
  const made = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  made.setAttribute("aria-label", name);
  return made;
}

/** Give odds factors for the ticks: round ones, far enough apart. */
function factorTicks(end, width) {
  const small = [1, 1.001, 1.002, 1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5];
  const large = [10, 20, 50, 100, 1e3, 1e4, 1e6, 1e9, 1e12, 1e20, 1e30, 1e50, 1e100];
  const chosen = [];
  let free = -Infinity;
  for (const factor of [...small, ...large]) {
    const at = (Math.log(factor) / end) * width;
    if (at > width || at < free) continue;
    chosen.push(factor);
    free = at + 58;
  }
  return chosen;
}

/** Draw the scale from "nothing" to the worst case, with the person's mark when there is one. */
function drawScale(place, report, bound) {
  const width = Math.max(place.clientWidth, 240), left = 12, right = width - 12;
  const end = Math.max(report.maximum, bound === null ? 0 : bound, 1e-9);
  const at = (value) => left + (Math.min(value, end) / end) * (right - left);
  const name = `A scale from 0, nothing revealed, to ${boundText(report.maximum)}, the worst case.` + (bound === null ? "" : ` Your bound is ${boundText(bound)}.`);
  const svg = canvas(width, 116, name);
  const top = 44, middle = top + 8;
  svg.append(shape("rect", { class: "rail", x: left, y: top, width: right - left, height: 16, rx: "8" }));
  if (bound !== null) svg.append(shape("rect", { class: "reach", x: left, y: top, width: Math.max(at(bound) - left, 4), height: 16, rx: "8" }));
  for (const factor of factorTicks(end, right - left)) {
    const x = at(Math.log(factor));
    svg.append(shape("line", { class: "tick", x1: x, x2: x, y1: top + 20, y2: top + 26 }));
    const anchor = x < left + 16 ? "" : x > right - 16 ? "end" : "middle";
    svg.append(shape("text", { class: anchor, x, y: top + 41 }, `×\u2009${factor >= 1e6 ? powerText(factor, 2) : factor.toLocaleString("en")}`));
  }
  if (at(report.maximum) > 260) svg.append(shape("text", { x: left, y: 112 }, "nothing revealed"));
  svg.append(shape("line", { class: "stop", x1: at(report.maximum), x2: at(report.maximum), y1: top - 5, y2: top + 21 }));
  svg.append(shape("text", { class: "end strong", x: Math.max(at(report.maximum), 130), y: 112 }, `worst case ${boundText(report.maximum)}`));
  const epsilon = report.guarantee.epsilon;
  if (epsilon < end) {
    svg.append(shape("line", { class: "guarantee", x1: at(epsilon), x2: at(epsilon), y1: top - 9, y2: top + 25 }));
    const near = bound !== null && Math.abs(at(epsilon) - at(bound)) < 34;
    const anchor = near && at(bound) > at(epsilon) ? "end" : near ? "" : "middle";
    svg.append(shape("text", { class: anchor, x: at(epsilon) + (anchor === "end" ? -3 : anchor === "" ? 3 : 0), y: top - 14 }, `ε = ${promisedNumber(epsilon)}`));
  }
  if (bound !== null) {
    const x = at(bound), half = 62;
    const anchor = x < left + half ? "" : x > right - half ? "end" : "middle";
    svg.append(shape("line", { class: "stem", x1: x, x2: x, y1: 18, y2: middle }));
    svg.append(shape("circle", { class: "mark", cx: x, cy: middle, r: 10 }));
    svg.append(shape("text", { class: `you ${anchor}`, x: anchor === "" ? x - 6 : anchor === "end" ? x + 6 : x, y: 12 }, `you: at most ${boundText(bound)}`));
  }
  place.replaceChildren(svg);
}

/** Draw what somebody may believe afterwards, for three beliefs before. */
function drawBeliefs(place, bound) {
  const rows = [0.1, 0.5, 0.9].map((before) => {
    const { low, high } = beliefs(before, bound);
    const words = `${percentDown(low)} to ${percentUp(high)} after`, holder = element("div", {});
    const row = element("div", { class: "belief" }, element("span", {}, `${100 * before} % sure before`), holder, element("span", {}, words));
    return { before, low, high, words, holder, row };
  });
  place.replaceChildren(...rows.map(({ row }) => row));
  const width = Math.max(rows[0].holder.clientWidth, 120), at = (share) => 8 + share * (width - 16);
  for (const { before, low, high, words, holder } of rows) {
    const svg = canvas(width, 18, `${100 * before} % before, ${words}`);
    svg.append(shape("rect", { class: "rail", x: 1, y: 4, width: width - 2, height: 10, rx: "5" }));
    svg.append(shape("rect", { class: "range", x: at(low), y: 4, width: Math.max(at(high) - at(low), 2), height: 10 }));
    for (const x of [at(low), at(high)]) svg.append(shape("line", { class: "cap", x1: x, x2: x, y1: 3.5, y2: 14.5 }));
    svg.append(shape("circle", { class: "before", cx: at(before), cy: 9, r: 5 }));
    holder.append(svg);
  }
}
