// The page itself: fields in, answer out. Nothing here, or anywhere on the page, sends or stores anything.

const report = JSON.parse(byId("report").textContent);
const form = buildForm(report);

function insteadWords(each, used) {
  return `This is outside the range. Training used ${valueText(each, used)} instead, and so does this page.`;
}

/** Say what the training rule does with a value beyond what is declared. */
function heedWords(feature, value) {
  const part = encodeFeature(feature, value);
  if (part.missing) return "Training took this value as missing, and this report has no bound for it.";
  const alone = Math.abs(part.columns[0]) > report.encoding.data_norm * (1 + 1e-12);
  if (!part.outside) return !feature.levels && alone ? "This number alone makes your row longer than allowed. Is it right?" : "";
  if (ruleOf(feature) === "reject") {
    if (!feature.outside) return "This report has no bound for a value that is not in the list.";
    return `Rows with a value ${feature.levels ? "that is not in the list" : `outside ${rangeWords(feature)}`} were not used.`;
  }
  return feature.levels ? "Training counted a value that is not in the list as none of them, and so does this page." : insteadWords(feature, part.used);
}

/** Read one field, and say beside it what is wrong or what to heed. `strict` complains about empty fields too. */
function checkField(field, i, strict) {
  const found = readField(field);
  const visible = found.problem && (strict || field.complained || !found.missing);
  if (visible) field.complained = true;
  const { features, label } = report.encoding;
  let heed = "";
  if (!found.problem && i < features.length) heed = heedWords(features[i], found.value);
  else if (!found.problem && isRanged(label) && encodeLabel(label, found.value) !== found.value) heed = insteadWords(label, encodeLabel(label, found.value));
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
  try {
    const outcome = read.pop().value, row = encodeRow(report, read.map((each) => each.value), outcome);
    heedLength(row);
    if (row.refused.length > 0) showRefusal(row);
    else showAnswer(personBound(report, row, membership()));
  } catch (error) { // what stands there is the answer for another row
    byId("refusal").textContent = "This page cannot work out a bound for this row. Please tell whoever published it.";
    showOnly("refusal");
    showNothing();
    throw error;
  }
  return [];
}

function start() {
  const { epsilon, delta } = report.guarantee;
  byId("fields").after(element("p", { class: "heed", id: "row-heed", role: "status" }));
  byId("bound-means").textContent = "The same as the odds factor, on the scale above: its natural logarithm.";
  byId("odds-means").textContent = "Whoever thought it even, 1 to 1, ends with at most this many to 1 that you were in, or that you were not.";
  byId("maximum").append(boundText(report.maximum), element("small", {}, `×\u2009${factorText(report.maximum)}`));
  byId("maximum-means").textContent = "No row, however unusual, gets a higher bound from this model.";
  byId("guarantee").append(`ε = ${promisedNumber(epsilon)}`, element("small", {}, `δ = ${promisedNumber(delta)}`));
  const idealized = report.mechanism === "objective-perturbation" ? " Idealized: it is proved for real-number arithmetic, and not for how computers round it." : "";
  byId("guarantee-means").textContent = `What was promised to everybody beforehand, about every model that could come out. It and your bound stand side by side.${idealized}`;
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
