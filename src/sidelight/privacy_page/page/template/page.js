// The page itself: fields in, answer out. Nothing here, or anywhere on the page, sends or stores anything.

const report = JSON.parse(byId("report").textContent);
const form = buildForm(report);
const LARGEST_FILE = 20e6;
let shownBound = null;
let fileRows = null;

function insteadWords(used) {
  return `This is outside the range. Training used ${plainNumber(used)} instead, and so does this page.`;
}

/** Say what the training rule does with a value beyond what is declared. */
function heedWords(feature, value) {
  const part = encodeFeature(feature, value);
  const alone = Math.abs(part.columns[0]) > report.encoding.data_norm * (1 + 1e-12);
  if (!part.outside) return !feature.levels && alone ? "This number alone makes your row longer than allowed. Is it right?" : "";
  if (ruleOf(feature) === "reject") return `Rows with a value ${feature.levels ? "that is not in the list" : `outside ${rangeWords(feature)}`} were not used.`;
  return feature.levels ? "Training counted a value that is not in the list as none of them, and so does this page." : insteadWords(part.used);
}

/** Read one field, and say beside it what is wrong or what to heed. `strict` complains about empty fields too. */
function checkField(field, i, strict) {
  const found = readField(field);
  const visible = found.problem && (strict || field.complained || !found.missing);
  if (visible) field.complained = true;
  const { features, label } = report.encoding;
  let heed = "";
  if (!found.problem && i < features.length) heed = heedWords(features[i], found.value);
  else if (!found.problem && isRanged(label) && encodeLabel(label, found.value) !== found.value) heed = insteadWords(encodeLabel(label, found.value));
  say(field, visible ? found.problem : "", heed);
  return found;
}

function heedLength(row) {
  const limit = plainNumber(report.encoding.data_norm), length = plainNumber(Number(row.length.toPrecision(4)));
  const heeded = row.tooLong && report.encoding.row_policy !== "normalize";
  write("row-heed", heeded ? `Your row is longer than the limit of ${limit}: its length is ${length}. Training shortened such rows to ${limit}, and so does this page.` : "");
}

/** Read all fields, and show the answer or what is still wanted. Gives the fields that cannot be used. */
function update(strict) {
  const read = form.all.map((field, i) => checkField(field, i, strict));
  const wrong = form.all.filter((_, i) => read[i].problem);
  if (wrong.length > 0) {
    write("row-heed", "");
    showWaiting(wrong, form.all.filter((_, i) => read[i].missing));
    return wrong;
  }
  tellIn("form-said", "", false);
  const outcome = read.pop().value, row = encodeRow(report, read.map((each) => each.value), outcome);
  heedLength(row);
  if (row.refused.length > 0) showRefusal(row);
  else showAnswer(personBound(report, row, membership()));
  return [];
}

function showOnly(id) {
  for (const each of ["waiting", "refusal", "answer"]) byId(each).hidden = each !== id;
  for (const each of ["beliefs-part", "sum"]) byId(each).hidden = id !== "answer";
}

function showNothing() {
  shownBound = null;
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
      : `Almost there: ${some(empty)} ${empty.length === 1 ? "is" : "are"} still empty.`;
  write("waiting", words);
  showOnly("waiting");
  if (shownBound !== null || byId("bound").textContent === "") showNothing();
}

function showRefusal(row) {
  const names = row.refused.map((i) => form.fields[i].name);
  byId("refusal").textContent = `A row like this could not have been used, because of ${listText(names, 3)}. If this is your real row, it was not in the data.`;
  showOnly("refusal");
  showNothing();
}

function showAnswer(answer) {
  shownBound = answer.bound;
  byId("factor").textContent = `×\u2009${factorText(answer.bound)}`;
  byId("sentence").textContent = personSentence(report, answer.bound);
  byId("bound").textContent = boundText(answer.bound);
  byId("odds").textContent = `×\u2009${factorText(answer.bound)}`;
  showOnly("answer");
  drawScale(byId("scale"), report, answer.bound);
  drawBeliefs(byId("beliefs"), answer.bound);
  const rows = answer.parts.filter(([, value]) => value !== null);
  byId("parts").replaceChildren(
    ...rows.flatMap(([words, value]) => [element("dt", {}, words), element("dd", {}, plainNumber(value))]),
    element("dt", { class: "total" }, "your bound"),
    element("dd", { class: "total", id: "exact-bound" }, String(answer.bound)),
  );
}

/** Fill the fields from the cells of one row. */
function fillRow(cells, layout) {
  form.fields.forEach((field, i) => fillField(field, cells[layout.places[i]] || ""));
  if (layout.outcome >= 0) fillField(form.outcome, cells[layout.outcome] || "");
  update(true);
}

function tellIn(id, words, bad) {
  write(id, words);
  byId(id).classList.toggle("bad", bad);
}

function takePaste() {
  const text = byId("paste").value;
  if (text.trim() === "") return tellIn("paste-said", "", false);
  const rows = rowsOf(text), layout = layoutOf(rows, report.encoding.features);
  if (layout.problem) return tellIn("paste-said", layout.problem, true);
  if (rows.length - layout.start > 1) return tellIn("paste-said", "These are several rows. Paste one only, yours.", true);
  fillRow(rows[layout.start], layout);
  tellIn("paste-said", layout.outcome < 0 ? "The fields are filled in. The outcome was not in the line: please add it below." : "The fields are filled in. Please check them below.", false);
}

function takeFile() {
  const [file] = byId("file").files;
  fileRows = null;
  byId("picker").hidden = true;
  if (!file) return tellIn("file-said", "", false);
  if (file.size > LARGEST_FILE) return tellIn("file-said", "This file is larger than 20 MB. Copy your row out of it and paste it instead.", true);
  const reader = new FileReader();
  reader.onerror = () => tellIn("file-said", "This file cannot be read.", true);
  reader.onload = () => {
    if (reader.result.includes("\0")) return tellIn("file-said", "This is not a text file. Save the table as CSV first.", true);
    const rows = rowsOf(reader.result), layout = layoutOf(rows, report.encoding.features);
    if (layout.problem) return tellIn("file-said", layout.problem, true);
    fileRows = { rows: rows.slice(layout.start), layout };
    byId("picker").hidden = false;
    byId("which").value = "1";
    byId("which").max = String(fileRows.rows.length);
    takeFileRow();
  };
  reader.readAsText(file);
}

function takeFileRow() {
  const count = fileRows.rows.length, which = numberOf(byId("which").value);
  if (which === null || !Number.isInteger(which) || which < 1 || which > count) {
    return tellIn("file-said", `Choose a row from 1 to ${count.toLocaleString("en")}.`, true);
  }
  fillRow(fileRows.rows[which - 1], fileRows.layout);
  tellIn("file-said", `Row ${which.toLocaleString("en")} of ${count.toLocaleString("en")} is in the fields now. Please check that it is yours.`, false);
}

function start() {
  const { epsilon, delta } = report.guarantee;
  byId("fields").after(element("p", { class: "heed", id: "row-heed", role: "status" }));
  byId("scale-words").textContent = `Equal steps on this scale multiply the odds equally. At 0 the model says nothing about you; nobody’s bound can lie beyond the worst case.`;
  byId("bound-means").textContent = "The same as the odds factor, on the scale above: its natural logarithm.";
  byId("odds-means").textContent = "Whoever thought it even, 1 to 1, ends with at most this many to 1 that you were in, or that you were not.";
  byId("maximum").append(boundText(report.maximum), element("small", {}, `×\u2009${factorText(report.maximum)}`));
  byId("maximum-means").textContent = "No row, however unusual, gets a higher bound from this model.";
  byId("guarantee").append(`ε = ${plainNumber(epsilon)}`, element("small", {}, `δ = ${plainNumber(delta)}`));
  byId("guarantee-means").textContent = "What was promised to everybody beforehand, about every model that could come out. It and your bound stand side by side.";
  byId("sum-words").textContent = "Each part is an upper bound of what it names. Shown numbers are rounded up where they matter.";
  const { is, isNot } = aboutLists(report);
  byId("is").append(...is.map((words) => element("li", {}, words)));
  byId("is-not").append(...isNot.map((words) => element("li", {}, words)));
  byId("form").addEventListener("input", () => update(false));
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const wrong = update(true);
    tellIn("form-said", wrong.length > 0 ? `${wrong.length === 1 ? "One field needs" : `${wrong.length} fields need`} your attention.` : "", true);
    if (wrong.length > 0) wrong[0].control.focus();
    else byId("result").focus();
  });
  byId("form").addEventListener("reset", () => {
    for (const field of form.all) field.complained = false;
    for (const id of ["paste", "file"]) byId(id).value = "";
    for (const id of ["paste-said", "file-said", "form-said"]) tellIn(id, "", false);
    byId("picker").hidden = true;
    fileRows = null;
    setTimeout(() => update(false)); // the browser empties the fields after this event
  });
  byId("paste").addEventListener("input", takePaste);
  byId("file").addEventListener("change", takeFile);
  byId("which").addEventListener("input", takeFileRow);
  new ResizeObserver(() => {
    drawScale(byId("scale"), report, shownBound);
    if (shownBound !== null) drawBeliefs(byId("beliefs"), shownBound);
  }).observe(byId("scale"));
  update(false);
}

start();
// For whoever wants to check the arithmetic by hand: sidelight.bound(values, outcome) in the console.
globalThis.sidelight = Object.freeze({
  report,
  bound: (values, outcome, member = "unknown", of = report) => personBound(of, encodeRow(of, values, outcome), member),
});
