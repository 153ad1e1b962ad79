// The fields, made from the report, and the ways into them: typed, pasted, or from a file that is read in the browser.

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

function levelSelect(levels, withOther, unknown) {
  const select = element("select", {}, element("option", { value: "" }, "choose …"));
  levels.forEach((level, i) => select.append(element("option", { value: String(i) }, level === "" ? "(empty)" : level === unknown ? `${level} (or anything else)` : level)));
  if (withOther) select.append(element("option", { value: OTHER }, "something else"));
  return select;
}

/** Write a number of a field: a date where it is one. */
function valueText(each, value) {
  if (!each.start) return plainNumber(value);
  const text = new Date(startOf(each) + value * stepOf(each)).toISOString();
  return each.unit === "hour" ? text.slice(0, 16).replace("T", " ") : text.slice(0, 10);
}

function rangeWords(each) {
  return `${valueText(each, each.lo)} to ${valueText(each, each.hi)}`;
}

function rangeHint(each) {
  if (each.start) return `a date from ${rangeWords(each)}, written like that`;
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
    const known = typeof feature.unknown === "string";
    const control = feature.levels ? levelSelect(feature.levels, !known, feature.unknown) : numberInput();
    const listed = known ? `one of the list; training counted anything else as “${feature.unknown}”` : "one of the list";
    byId("fields").append(makeField(`f${i}`, feature.name, feature.levels ? listed : rangeHint(feature), control));
    return { id: `f${i}`, name: feature.name, control, feature, levels: feature.levels || null, complained: false };
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
  const dated = field.feature && field.feature.start;
  const value = dated ? dateOf(field.feature, text) : numberOf(text);
  if (value !== null) return { value };
  const cut = text.trim().length > 24 ? `${text.trim().slice(0, 24)}…` : text.trim();
  if (dated) return { problem: `“${cut}” is not a date. Write it like ${valueText(field.feature, field.feature.lo)}.` };
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

/** Say whether a feature names how texts were read in training; files of earlier versions do not. */
function saysReading(feature) {
  return ["outside", "unknown", "missing", "spellings", "missing_texts", "casefold", "strip"].some((name) => Object.hasOwn(feature, name));
}

/** Put a text into a field; a level that is not in the list becomes "something else". */
function fillField(field, text) {
  if (!field.levels) field.control.value = text;
  else if (field.feature && saysReading(field.feature)) {
    const levelIn = (each) => (each === "" && typeof field.feature.missing !== "string" ? "" : levelOf(field.feature, each));
    const level = levelIn(text), place = field.levels.indexOf(level);
    // white space around a text may be how the row was typed, or what the data has: where it matters, the person chooses
    const sure = level === text || level === levelIn(text.trim());
    field.control.value = !sure || text === "" && place < 0 ? "" : place >= 0 ? String(place) : OTHER;
    if (field.control.selectedIndex < 0) field.control.value = "";
  }
  else if (text.trim() === "") field.control.value = "";
  else {
    const place = placeOf(text, field.levels);
    field.control.value = place >= 0 ? String(place) : OTHER;
    if (field.control.selectedIndex < 0) field.control.value = "";
  }
}

// Text to rows: CSV as spreadsheets write it, and single values as people type them.

/** Read a number as people write it; null for what is none. */
function numberOf(text) {
  const plain = text.trim().replace(/^[−–]/, "-");
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain)) return null;
  const value = Number(plain);
  return Number.isFinite(value) ? value : null;
}

const DATE = /^ *(\d{4})-(\d\d)-(\d\d)(?:[ T]([01]\d|2[0-3]):([0-5]\d)(?::[0-5]\d(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|([+-])(0\d|1[0-4])(?::?([0-5]\d))?))?)? *$/;

/** Give the milliseconds of a date, in UTC; NaN for what is none. */
function instantOf(text) {
  const found = DATE.exec(text);
  if (!found || found[1] === "0000") return NaN;
  const instant = Date.parse(`${found[1]}-${found[2]}-${found[3]}T${found[4] || "00"}:${found[5] || "00"}:00Z`);
  const ahead = ((Number(found[7]) || 0) * 60 + (Number(found[8]) || 0)) * (found[6] === "-" ? -60000 : 60000);
  return new Date(instant).getUTCDate() === Number(found[3]) ? instant - ahead : NaN; // 30 February is none
}

function startOf(feature) {
  return instantOf(feature.start);
}

function stepOf(feature) {
  return feature.unit === "hour" ? 3600000 : 86400000;
}

/** Read a date as its whole days or hours since the start; null for what is none. */
function dateOf(feature, text) {
  const units = Math.floor((instantOf(text) - startOf(feature)) / stepOf(feature));
  return Number.isFinite(units) ? units : null;
}

/** Say what separates the values: what occurs most often outside quotes in the first line. */
function separatorOf(text) {
  const counts = { "\t": 0, ";": 0, ",": 0 };
  let quoted = false;
  for (const sign of text) {
    if (sign === '"') quoted = !quoted;
    else if (!quoted && (sign === "\n" || sign === "\r")) break;
    else if (!quoted && sign in counts) counts[sign] += 1;
  }
  return Object.keys(counts).reduce((best, sign) => (counts[sign] > counts[best] ? sign : best), "\t");
}

/** Split text into rows of cells; quotes may hold separators, line ends and doubled quotes. Empty lines are left out. */
function rowsOf(text) {
  const source = text.replace(/^\uFEFF/, "");
  const separator = separatorOf(source.trimStart());
  const rows = [];
  let cells = [], cell = "", quoted = false;
  const endCell = () => {
    cells.push(cell);
    cell = "";
  };
  const endRow = () => {
    endCell();
    if (cells.some((each) => each.trim() !== "")) rows.push(cells);
    cells = [];
  };
  for (let i = 0; i < source.length; i++) {
    const sign = source[i];
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (source[i + 1] === '"') cell += source[++i];
      else quoted = false;
    } else if (sign === '"' && cell.trim() === "") {
      cell = "";
      quoted = true;
    } else if (sign === separator) endCell();
    else if (sign === "\n") endRow();
    else if (sign !== "\r") cell += sign;
  }
  endRow();
  return rows;
}

const OUTCOME_NAMES = ["label", "outcome", "target", "y", "class"];

/** Find a name in a list: as it is written, or else in other letters where that leaves no doubt; -1 for none. */
function placeOf(name, list) {
  const exact = list.indexOf(name);
  if (exact >= 0) return exact;
  const plain = (each) => each.trim().toLowerCase();
  const near = list.map((each, i) => (plain(each) === plain(name) ? i : -1)).filter((i) => i >= 0);
  return near.length === 1 ? near[0] : -1;
}

/**
 * Find which cell belongs to which feature. Gives {places, outcome, start} (start: the first row of values), or a
 * sentence in `problem`. Names in the first row decide; without them the order of the fields does.
 */
function layoutOf(rows, features) {
  if (rows.length === 0) return { problem: "There is no row in this text." };
  const head = rows[0];
  const names = features.map((feature) => feature.name), places = names.map(() => -1);
  head.forEach((cell, i) => {
    const place = placeOf(cell, names);
    if (place >= 0 && places[place] < 0) places[place] = i;
  });
  const known = places.filter((place) => place >= 0).length;
  if (known > 0 && (rows.length > 1 || known === features.length)) {
    const missing = features.filter((_, i) => places[i] < 0).map((feature) => feature.name);
    if (missing.length > 0) return { problem: `No column is called ${listText(missing, 4)}.` };
    if (rows.length === 1) return { problem: "These are the names only. The values are missing: put them in a second line." };
    const rest = head.map((_, i) => i).filter((i) => !places.includes(i));
    const named = rest.filter((i) => placeOf(head[i], OUTCOME_NAMES) >= 0);
    return { places, outcome: named.length > 0 ? named[0] : rest.length === 1 ? rest[0] : -1, start: 1 };
  }
  const wanted = features.length;
  if (head.length !== wanted && head.length !== wanted + 1) {
    return { problem: `This line has ${head.length} ${head.length === 1 ? "value" : "values"}. It needs ${wanted}, in the order of the fields, or ${wanted + 1} with the outcome last.` };
  }
  return { places: features.map((_, i) => i), outcome: head.length > wanted ? wanted : -1, start: 0 };
}

// A pasted row, and a row of a file, into the same fields.

const LARGEST_FILE = 20e6;
let fileRows = null;

/** Fill the fields from the cells of one row. */
function fillRow(cells, layout) {
  form.fields.forEach((field, i) => fillField(field, cells[layout.places[i]] || ""));
  if (layout.outcome >= 0) fillField(form.outcome, cells[layout.outcome] || "");
  update(true);
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
