"use strict";
// Everything that a server sends is inserted as text, never as markup. The token lives in this variable alone.
let token = "", tables = {}, timer = 0;
const at = (name) => document.getElementById(name);

const fetched = (path, body, headers) => fetch(path, {
  method: body ? "POST" : "GET", cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
  headers: { Authorization: "Bearer " + token, ...(body ? { "Content-Type": "application/json" } : {}), ...headers },
  body: body && JSON.stringify(body),
});

async function ask(path, body, headers) {
  const answer = await fetched(path, body, headers);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.detail || found.title || "refused");
  return found;
}

async function tried(job) {
  at("problem").textContent = "";
  try { return await job(); } catch (error) { at("problem").textContent = error.message; return null; }
}

const words = (amounts) => Object.entries(amounts).map(([name, amount]) => name + " " + amount).join(", ");
const chosen = () => tables[at("table").value];
const query = () => JSON.parse(at("query").value);

function show() {
  const table = chosen();
  at("promise").textContent = table.promise + (table.sharing === "reserved" ? " Your share is reserved." :
    " Shares are first come, first served.");
  const [name] = Object.keys(table.remaining);
  const whole = Number(table.budget[name]), left = Number(table.remaining[name]);
  at("left").max = whole; at("left").value = left;
  at("left-text").textContent = words(table.remaining) + " of " + whole;
  at("columns").replaceChildren(...table.column.map((column) => {
    const row = document.createElement("tr");
    for (const text of [column.name, column.kind || "number", JSON.stringify(column)]) {
      row.insertCell().textContent = text;
    }
    return row;
  }));
  const number = table.column.find((each) => (each.kind || "number") === "number");
  const [charge] = Object.keys(table.remaining);
  const examples = table.kinds.filter((kind) => ["count", "mean", "sum", "histogram", "quantiles", "summary"].includes(kind));
  at("examples").replaceChildren(...examples.map((kind) => {
    const button = document.createElement("button");
    button.type = "button"; button.textContent = kind;
    button.onclick = () => {
      const made = { kind, ...(kind === "count" || !number ? {} : { column: number.name }), [charge]: "0.05" };
      if (kind === "quantiles") made.levels = ["0.25", "0.5", "0.75"];
      if (kind === "histogram") made.bins = 10;
      at("query").value = JSON.stringify(made, null, 1);
      price();
    };
    return button;
  }));
}

async function refresh() {
  const found = await ask("/v1/tables");
  const before = at("table").value;
  tables = Object.fromEntries(found.tables.map((table) => [table.name, table]));
  at("table").replaceChildren(...Object.keys(tables).map((name) => new Option(name, name)));
  if (tables[before]) at("table").value = before;
  show();
  const past = await ask("/v1/releases?table=" + encodeURIComponent(at("table").value));
  at("past").replaceChildren(...past.releases.map((each) => {
    const line = document.createElement("li"), button = document.createElement("button");
    line.textContent = each.state + " " + each.starts_at + " " + (each.outcome ? JSON.stringify(each.outcome.query) : "") + " ";
    button.textContent = "use as prediction"; button.type = "button"; button.disabled = !each.outcome || each.state !== "released";
    button.onclick = () => tried(async () => {
      at("query").value = JSON.stringify({ ...query(), prediction: { release: each.id } }, null, 1);
      price();
    });
    line.append(button);
    return line;
  }));
}

function price() {
  clearTimeout(timer);
  timer = setTimeout(() => tried(async () => {
    at("price").textContent = "";
    const found = await ask("/v1/tables/" + chosen().name + "/price", { query: query() });
    at("price").textContent = found.guarantee + ": costs " + words(found.charge) + ", " +
      (found.fits ? "leaves " + words(found.after) : "which does not fit") +
      (found.expected ? "; expected error " + found.expected.text : "") + ". Takes " + found.seconds + " s.";
  }), 300);
}

// The released numbers as rows of cells under titles: of a table by group, or of numbers with names.
function rowsOf(outcome) {
  const value = outcome.value || {};
  if (value.groups) {
    const { keys, groups, columns } = value.groups;
    return [[...keys, ...columns.map(([name]) => name)],
      ...groups.map((group, place) => [...group, ...columns.map(([, column]) => column.values[place])])];
  }
  const numbers = value.array;
  if (!Array.isArray(numbers) || numbers.some(Array.isArray)) return [];
  return [["", "value"], ...numbers.map((number, place) => [(outcome.labels || [])[place] || "", number])];
}

const beside = /(^|_)(plain|unbiased|noise_sd|pooled|supported|known)$/;  // in the JSON and the CSV, not in the table
const cellText = (cell) => typeof cell === "number" ? String(Number(cell.toPrecision(6))) : String(cell);

function drawTable(rows) {
  at("scroll").hidden = !rows.length;
  if (!rows.length) return;
  const kept = rows[0].map((title, place) => place).filter((place) => !beside.test(rows[0][place]));
  const line = (row, tag) => {
    const made = document.createElement("tr");
    for (const place of kept) {
      const cell = document.createElement(tag || (typeof row[place] === "number" ? "td" : "th"));
      if (cell.tagName === "TH") cell.scope = tag ? "col" : "row";
      cell.textContent = tag ? row[place].replaceAll("_", " ") || "level" : cellText(row[place]);
      made.append(cell);
    }
    return made;
  };
  at("numbers").tHead.replaceChildren(line(rows[0], "th"));
  at("numbers").tBodies[0].replaceChildren(...rows.slice(1).map((row) => line(row)));
}

function drawChart(text, rows) {
  at("chart").hidden = !text;
  if (!text) return;
  at("chart").src = "data:image/svg+xml," + encodeURIComponent(text);
  at("chart").alt = "Chart of " + (rows.length ? rows.length - 1 + " released numbers, which the table below lists" : "the release");
}

function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const quoted = (cell) => /[",\n\r]/.test(cell) ? '"' + cell.replaceAll('"', '""') + '"' : cell;

function shown(outcome, madeUp, chart, id) {
  const rows = rowsOf(outcome);
  at("answer").hidden = false;
  at("band").className = madeUp ? "made-up" : "";
  at("band").textContent = madeUp ? "Made-up rows: NOT PRIVATE and nothing of the table." : "";
  at("guarantee").textContent = outcome.type === "refused" ? "Refused: " + outcome.reason : madeUp ? "" :
    "Guarantee: " + outcome.guarantee.map(({ type, ...amounts }) => type + " (" + words(amounts) + ")").join(", or ");
  drawChart(chart, rows);
  drawTable(rows);
  at("save-numbers").hidden = !rows.length;
  at("save-numbers").onclick = () => save("numbers.csv", "text/csv", rows.map((row) => row.map((cell) => quoted(String(cell))).join(",")).join("\r\n") + "\r\n");
  at("save-outcome").onclick = () => save("release.json", "application/json", JSON.stringify(outcome));
  at("save-report").hidden = madeUp;
  at("save-report").onclick = () => tried(async () => {
    const answer = await fetched("/v1/releases/" + id + "/report");
    if (!answer.ok) throw new Error("there is no report now");
    save("report.html", "text/html", await answer.text());
  });
  at("outcome").textContent = JSON.stringify(outcome, null, 1);
  const body = JSON.stringify({ query: query() });
  at("elsewhere").textContent =
    "remote = sl.connect(" + JSON.stringify(location.origin) + ", token=...)\nremote.release(" + JSON.stringify(query()) +
    ")\n\ncurl -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' -H 'Idempotency-Key: once' \\\n  -d '" +
    body.replaceAll("'", "'\\''") + "' " + location.origin + "/v1/tables/" + chosen().name + "/releases";
}

at("sign-in").onsubmit = (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
  tried(async () => {
    const me = await ask("/v1/me");
    at("title").textContent = me.title + ": " + me.analyst;
    await refresh();
    at("sign-in").hidden = true;
    for (const name of ["tables", "ask", "history"]) at(name).hidden = false;
    at("table").focus();
  });
};
at("table").onchange = () => tried(refresh);
at("query").oninput = price;
at("dry").onclick = () => tried(async () => {
  const found = await ask("/v1/tables/" + chosen().name + "/dry-run", { query: query() });
  shown(found.outcome, true, found.chart);
});
at("release").onclick = () => tried(async () => {
  const asked = query(), name = chosen().name;
  if (!confirm("This charges your budget and cannot be undone. " + at("price").textContent)) return;
  const key = { "Idempotency-Key": "page " + crypto.randomUUID() };
  at("release").disabled = true;
  try {
    let state = await ask("/v1/tables/" + name + "/releases", { query: asked }, key);
    while (state.state === "queued" || state.state === "running") {
      const left = Math.max(0, (Date.parse(state.ready_at) - Date.now()) / 1000);
      at("wait").textContent = "Ready in " + Math.ceil(left) + " s.";
      await new Promise((done) => setTimeout(done, Math.min(1000, 1000 * left + 200)));
      state = await ask("/v1/releases/" + state.id);
    }
    at("wait").textContent = "The request is " + state.state + ".";
    if (state.outcome) {
      shown(state.outcome, false, "", state.id);
      const drawn = await fetched("/v1/releases/" + state.id + "/chart.svg");  // not of every release
      if (drawn.ok) drawChart(await drawn.text(), rowsOf(state.outcome));
    } else throw new Error((state.problem || {}).detail || (state.problem || {}).title || "failed");
  } finally { at("release").disabled = false; await refresh(); }
});
