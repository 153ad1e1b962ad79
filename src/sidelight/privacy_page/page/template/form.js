// The fields: made from the report, read with a plain sentence beside each field that cannot be used.

const OTHER = "other";
const byId = (id) => document.getElementById(id);

/** Make one field with its hint, and places for a problem and for something to heed. */
function makeField(id, title, hint, control) {
  control.id = id;
  control.setAttribute("aria-describedby", `${id}-hint ${id}-trouble ${id}-heed`);
  control.setAttribute("autocomplete", "off");
  return element(
    "div",
    { class: "field" },
    element("label", { for: id }, title),
    control,
    element("p", { class: "hint", id: `${id}-hint` }, hint),
    element("p", { class: "trouble", id: `${id}-trouble` }),
    element("p", { class: "heed", id: `${id}-heed` }),
  );
}

function numberInput() {
  return element("input", { type: "text", inputmode: "decimal", spellcheck: "false", autocapitalize: "off" });
}

function levelSelect(levels, withOther) {
  const select = element("select", {}, element("option", { value: "" }, "choose …"));
  levels.forEach((level, i) => select.append(element("option", { value: String(i) }, level === "" ? "(empty)" : level)));
  if (withOther) select.append(element("option", { value: OTHER }, "something else"));
  return select;
}

function rangeWords(each) {
  return `${plainNumber(each.lo)} to ${plainNumber(each.hi)}`;
}

function rangeHint(each) {
  return isRanged(each) ? `from ${rangeWords(each)}` : "a number";
}

/** Give the levels that can be chosen for the outcome; null when it is a number. */
function outcomeLevels(label) {
  if (label.classes) return label.classes;
  return typeof label.negative !== "string" ? null : [label.negative, label.positive];
}

function buildForm(report) {
  const { features, label } = report.encoding;
  const fields = features.map((feature, i) => {
    const control = feature.levels ? levelSelect(feature.levels, true) : numberInput();
    byId("fields").append(makeField(`f${i}`, feature.name, feature.levels ? "one of the list" : rangeHint(feature), control));
    return { id: `f${i}`, name: feature.name, control, levels: feature.levels || null, complained: false };
  });
  const levels = outcomeLevels(label);
  const control = levels ? levelSelect(levels, false) : numberInput();
  byId("outcome").append(makeField("outcome-field", "The outcome", levels ? "what the model predicts, as it was for you" : `what the model predicts, as it was for you; ${rangeHint(label)}`, control));
  const outcome = { id: "outcome-field", name: "The outcome", control, levels, complained: false };
  if (report.data_dependent) byId("outcome").append(membershipChoice());
  return { fields, outcome, all: [...fields, outcome] };
}

function membershipChoice() {
  const choices = element("div", { class: "choices" });
  for (const [value, words] of [["unknown", "I do not know"], ["yes", "yes"], ["no", "no"]]) {
    const radio = element("input", { type: "radio", name: "member", value, autocomplete: "off" });
    radio.defaultChecked = value === "unknown";
    choices.append(element("label", {}, radio, words));
  }
  return element("fieldset", {}, element("legend", {}, "Were you in the data?"), choices);
}

function membership() {
  const chosen = document.querySelector("input[name=member]:checked");
  return chosen ? chosen.value : "unknown";
}

/** Read one field: its value, or the sentence that stands beside it. */
function readField(field) {
  const text = field.control.value;
  if (text.trim() === "") return { missing: true, problem: field.levels ? "Please choose one." : "Please fill this in." };
  if (field.levels) return { value: text === OTHER ? null : field.levels[Number(text)] };
  const value = numberOf(text);
  if (value !== null) return { value };
  const cut = text.trim().length > 24 ? `${text.trim().slice(0, 24)}…` : text.trim();
  const hint = /^[-+\d.,\s]+$/.test(text) ? " Write it with a point and without separators, like 1234.5." : "";
  return { problem: `“${cut}” is not a number.${hint}` };
}

/** Write a text where it is new: what stays as it was costs no layout, and no screen reader repeats it. */
function write(id, words) {
  const place = byId(id);
  if (place.textContent !== words) place.textContent = words;
}

function tellIn(id, words, bad) {
  write(id, words);
  byId(id).classList.toggle("bad", bad);
}

function say(field, problem, heed) {
  write(`${field.id}-trouble`, problem || "");
  write(`${field.id}-heed`, heed || "");
  if (problem) field.control.setAttribute("aria-invalid", "true");
  else if (field.control.hasAttribute("aria-invalid")) field.control.removeAttribute("aria-invalid");
}

/** Put a text into a field; a level that is not in the list becomes "something else". */
function fillField(field, text) {
  if (!field.levels) field.control.value = text;
  else if (text.trim() === "") field.control.value = "";
  else {
    const place = placeOf(text, field.levels);
    field.control.value = place >= 0 ? String(place) : OTHER;
    if (field.control.selectedIndex < 0) field.control.value = "";
  }
}
