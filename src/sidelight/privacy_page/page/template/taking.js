// The other ways in: a pasted row, and a row of a file that is read in the browser. Both end in the same fields.

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
