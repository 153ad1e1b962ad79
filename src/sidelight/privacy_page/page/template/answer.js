// The part below the form: the answer, or what is still wanted for one, or why there is none.

const SCALE_WORDS = "Equal steps on this scale multiply the odds equally. At 0 the model says nothing about you; nobody’s bound can lie beyond the worst case.";
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
  const contradicts = answer.bound > report.maximum * (1 + 1e-6); // a maximum may have been written with few digits
  tellIn("scale-words", contradicts ? CONTRADICTION : SCALE_WORDS, contradicts);
  drawScale(byId("scale"), report, answer.bound);
  drawBeliefs(byId("beliefs"), answer.bound);
  const rows = answer.parts.filter(([, value]) => value !== null);
  byId("parts").replaceChildren(
    ...rows.flatMap(([words, value]) => [element("dt", {}, words), element("dd", {}, plainNumber(value))]),
    element("dt", { class: "total" }, "your bound"),
    element("dd", { class: "total", id: "exact-bound" }, String(answer.bound)),
  );
}
