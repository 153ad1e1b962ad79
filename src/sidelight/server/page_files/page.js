// Everything that a server sends is inserted as text, never as markup. The token lives in this variable alone.
let token = "", tables = {}, schemas = {}, past = [], pastOf = "", formOf = "", timer = 0;
// The table, the query and the price of exactly what "Ask and pay" would send now; null while there is no such price.
let priced = null, paying = false;
// The keys of paid requests whose final state was not read, by table and text: asked again, each is charged once.
const unread = new Map();
const at = (name) => document.getElementById(name);

const fetched = (path, body, headers) => fetch(path, {
  method: body ? "POST" : "GET", cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
  headers: { Authorization: "Bearer " + token, ...(body ? { "Content-Type": "application/json" } : {}), ...headers },
  body: body && JSON.stringify(body),
});

async function ask(path, body, headers) {
  const answer = await fetched(path, body, headers);
  const found = await answer.json();
  if (!answer.ok) {
    const later = answer.status === 429 ? Number(answer.headers.get("Retry-After")) || 1 : undefined;
    throw Object.assign(new Error(found.detail || found.title || "refused"), { answered: true, later });
  }
  return found;
}

const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

// Asks a few times where the connection is lost or the server is busy.
async function askAgain(path, body, headers) {
  for (const seconds of [1, 2, 4]) {
    try { return await ask(path, body, headers); } catch (error) {
      if (error.answered && !error.later) throw error;
      at("wait").textContent = error.answered ? "The server is busy." : "The connection was lost. Asking again.";
      await pause(Math.min(10, Math.max(seconds, error.later || 0)));
    }
  }
  return ask(path, body, headers);
}

const complain = (error) => { at("problem").textContent = error ? error.message : ""; };

// Runs an action of the user: what was said of an earlier one goes.
async function tried(job) {
  complain(null);
  try { return await job(); } catch (error) { complain(error); return null; }
}

const words = (amounts) => Object.entries(amounts).map(([name, amount]) => name + " " + amount).join(", ");
const chosen = () => tables[at("table").value];
const query = () => JSON.parse(at("query").value);
const written = (asked) => "{\n  " + Object.entries(asked).map(([key, value]) => JSON.stringify(key) + ": " + JSON.stringify(value)).join(",\n  ") + "\n}";

// The declarations of a column in words.
function declared({ name, kind, lower, upper, granularity, categories, ...rest }) {
  const more = Object.entries(rest).map(([key, value]) => key.replaceAll("_", " ") + " " + (typeof value === "string" ? value : JSON.stringify(value)));
  return shownText([lower !== undefined && upper !== undefined && lower + " to " + upper, granularity !== undefined && "in steps of " + granularity,
    categories && categories.join(", "), ...more].filter(Boolean).join("; "));
}

function show() {
  const table = chosen();
  at("promise").textContent = table.promise;
  at("sharing").textContent = (table.sharing === "reserved" ? "Your share is reserved: other analysts cannot use it up." :
    "Shares are first come, first served: others can use up what you see here.") +
    (table.population ? " It holds over all tables of " + table.population.name + " together: " + table.population.promise : "");
  at("paused").textContent = table.paused ? "Paused: no requests are accepted until the owner resumes the table." : "";
  const [name] = Object.keys(table.remaining);
  const whole = Number(table.budget[name]), left = Number(table.remaining[name]);
  at("left").max = whole; at("left").value = left;
  at("left-text").textContent = words(table.remaining) + " of " + whole + (table.window ? " (in " + table.window + ")" : "");
  at("columns").replaceChildren(...table.column.map((column) => {
    const row = document.createElement("tr");
    const name = document.createElement("th");
    name.scope = "row"; name.textContent = shownText(column.name);
    row.append(name);
    for (const text of [column.kind || "number", declared(column)]) row.insertCell().textContent = text;
    return row;
  }));
  const [charge] = Object.keys(table.remaining);
  at("unit").textContent = charge;
  if (formOf !== table.name) {
    formOf = table.name;
    const kinds = inForm.filter((kind) => table.kinds.includes(kind));
    at("kind").replaceChildren(...kinds.map((kind) => new Option(names[kind] || kind, kind)));
    at("by").replaceChildren(...table.column.filter((each) => each.kind === "category").map((each) => {
      const label = document.createElement("label"), box = document.createElement("input");
      box.type = "checkbox"; box.value = each.name;
      label.append(box, " " + shownText(each.name));
      return label;
    }));
    at("select").value = `SELECT COUNT(*) FROM "${table.name}"`; // a name has no quotes, and may be 2019 or order
    fields();
  }
}

// The form writes the JSON, which is what is sent. Its fields are those that the server's schema of a kind has.
const inForm = ["count", "mean", "sum", "proportion", "histogram", "quantiles", "summary", "sql"];
const names = { count: "number of rows", mean: "mean", sum: "sum", proportion: "proportion", sql: "SQL" };
const hasKey = (key) => key in (schemas[at("kind").value] || {});

function fields() {
  for (const each of document.querySelectorAll("[data-key]")) each.hidden = !hasKey(each.dataset.key);
  const columns = chosen().column, numbers = columns.filter((each) => (each.kind || "number") === "number");
  const before = at("column").value;
  at("column").replaceChildren(...(numbers.length ? numbers : columns).map((each) => new Option(shownText(each.name), each.name)));
  if ([...at("column").options].some((each) => each.value === before)) at("column").value = before;
  if (hasKey("by") && !at("by").childElementCount) document.querySelector('[data-key="by"]').hidden = true;
  write();
}

function write() {
  const made = { kind: at("kind").value };
  const texts = { column: at("column").value, condition: at("condition").value.trim(), where: at("where").value.trim(), select: at("select").value.trim() };
  for (const [key, text] of Object.entries(texts)) if (hasKey(key) && text) made[key] = text;
  const groups = [...at("by").querySelectorAll("input:checked")].map((each) => each.value);
  if (hasKey("by") && groups.length) made.by = groups;
  if (hasKey("levels")) made.levels = at("levels").value.trim().split(/[\s,;]+/);
  if (hasKey("bins")) made.bins = Number(at("bins").value);
  made[at("unit").textContent] = at("amount").value.trim();
  at("query").value = written(made);
  price();
}

async function refresh() {
  const found = await ask("/v1/tables");
  const before = at("table").value;
  tables = Object.fromEntries(found.tables.map((table) => [table.name, table]));
  at("table").replaceChildren(...Object.keys(tables).map((name) => new Option(name, name)));
  if (tables[before]) at("table").value = before;
  show();
  await readPast();
}

// Final entries are read once; a page is shorter where its answers are large, and an empty one ends the list.
async function readPast() {
  if (pastOf !== at("table").value) past = [];
  pastOf = at("table").value;
  const open = past.findIndex((each) => each.state === "running");
  if (open >= 0) past.length = open;
  for (;;) {
    const after = past.length ? "&after=" + past[past.length - 1].id : "";
    const page = (await ask("/v1/releases?limit=100&table=" + encodeURIComponent(at("table").value) + after)).releases;
    past.push(...page);
    if (!page.length || past.length >= 2000) break;
  }
  drawPast();
}

const described = ({ kind, column, by, where }) => shownText([kind, column && "of " + column, by && by.length && "by " + by, where && "where " + where]
  .filter(Boolean).join(" ").replaceAll("_", " "));

function drawPast() {
  const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const lines = past.map((each) => [each, (each.outcome ? described(each.outcome.query) : "a request") + ", " + each.state + " " + each.starts_at.slice(0, 16).replace("T", " ")])
    .filter(([, text]) => words.every((word) => text.toLowerCase().includes(word))).reverse();
  at("found").textContent = lines.length + " of " + past.length;
  at("past").replaceChildren(...lines.slice(0, 100).map(([each, text]) => {
    const line = document.createElement("li");
    line.textContent = text + " ";
    if (each.outcome) line.append(action("show", text, () => answered(each)));
    if (each.state === "released" && each.outcome) line.append(action("use as prediction", text, () => {
      at("query").value = written({ ...query(), prediction: { release: each.id } });
      price();
    }));
    return line;
  }));
}

function action(name, about, job) {
  const button = document.createElement("button");
  button.type = "button"; button.textContent = name; button.setAttribute("aria-label", name + ": " + about);
  button.onclick = () => tried(async () => job());
  return button;
}

function setPrice(found) {
  priced = found;
  at("price").textContent = found ? found.words : "";
  at("release").disabled = paying || !found;
}

function price() {
  clearTimeout(timer);
  setPrice(null);
  timer = setTimeout(async () => {
    const name = at("table").value, text = at("query").value;
    const isCurrent = () => name === at("table").value && text === at("query").value;
    try {
      const asked = query(), found = await ask("/v1/tables/" + name + "/price", { query: asked });
      if (!isCurrent()) return;  // edited meanwhile: a later answer belongs to what is there now
      setPrice({ name, text, asked, words: found.guarantee + ": costs " + words(found.charge) + ", " +
        (found.fits ? "leaves " + words(found.after) : "which does not fit") +
        (found.expected ? "; expected error " + found.expected.text : "") + ". Takes " + found.seconds + " s." });
    } catch (error) { if (isCurrent() && !at("problem").textContent) complain(error); }  // what was paid comes first
  }, 300);
}

// The numbers as texts, which the server made; the first `keys` columns say what the others are about.
function drawNumbers({ titles, keys, lines, more, csv }) {
  const rows = lines.length + more;
  at("scroll").hidden = !rows;
  at("save-numbers").hidden = !csv;
  const row = (texts, tag) => {
    const made = document.createElement("tr");
    texts.forEach((text, place) => {
      const cell = document.createElement(tag || (place < keys ? "th" : "td"));
      if (cell.tagName === "TH") cell.scope = tag ? "col" : "row";
      cell.textContent = tag ? text || "level" : text;
      made.append(cell);
    });
    return made;
  };
  at("numbers").caption.textContent = "Released numbers" + (more ? ": the first " + lines.length : "") +
    (!csv && rows ? "; all " + rows + " are too long for a page and for CSV: save the release as JSON" : more ? "; the CSV has " + more + " more" : "");
  at("numbers").tHead.replaceChildren(row(titles, "th"));
  at("numbers").tBodies[0].replaceChildren(...lines.map((texts) => row(texts)));
  at("chart").alt = "Chart of " + (rows ? rows + " released numbers, which the table below lists" : "the release");
  at("save-numbers").onclick = () => save("numbers.csv", "text/csv", csv);
}

function drawChart(text) {
  at("chart").hidden = !text;
  if (text) at("chart").src = "data:image/svg+xml," + encodeURIComponent(text);
}

function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const noNumbers = { titles: [], keys: 0, lines: [], more: 0, csv: "" };
let answers = 0;  // how many were shown: what comes late for an older one is not drawn

function shown(outcome, madeUp, numbers, chart, id, asked) {
  answers += 1;
  at("answer").hidden = false;
  at("band").className = madeUp ? "made-up" : "";
  at("band").textContent = madeUp ? "Made-up rows: NOT PRIVATE, and independent of the table." : "";
  at("guarantee").textContent = outcome.type === "refused" ? "Refused: " + outcome.reason : madeUp ? "" :
    "Guarantee: " + outcome.guarantee.map(({ type, ...amounts }) => type + " (" + words(amounts) + ")").join(", or ");
  drawChart(chart);
  drawNumbers(numbers);
  at("save-outcome").onclick = () => save("release.json", "application/json", JSON.stringify(outcome));
  const report = async () => {
    const answer = await fetched("/v1/releases/" + id + "/report");
    if (!answer.ok) throw new Error("there is no report now");
    return answer.text();
  };
  at("show-report").hidden = at("save-report").hidden = madeUp;
  at("report").hidden = true;
  at("report").srcdoc = "";
  at("save-report").onclick = () => tried(async () => save("report.html", "text/html", await report()));
  at("show-report").onclick = () => tried(async () => {  // in a frame of its own origin, where nothing runs
    at("report").srcdoc = await report();
    at("report").hidden = false;
  });
  at("outcome").textContent = JSON.stringify(outcome, null, 1);
  at("same").hidden = !asked;
  if (!asked) return;
  const body = JSON.stringify({ query: asked });
  at("elsewhere").textContent =
    "remote = sl.connect(" + JSON.stringify(location.origin) + ", token=...)\nremote.release(" + JSON.stringify(asked) +
    ")\n\ncurl -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' -H 'Idempotency-Key: once' \\\n  -d '" +
    body.replaceAll("'", "'\\''") + "' " + location.origin + "/v1/tables/" + chosen().name + "/releases";
}

async function answered(state, asked) {
  shown(state.outcome, false, noNumbers, "", state.id, asked);
  const turn = answers, numbers = await ask("/v1/releases/" + state.id + "/numbers");
  if (turn === answers) drawNumbers(numbers);
  const drawn = await fetched("/v1/releases/" + state.id + "/chart.svg");  // not of every release
  const chart = drawn.ok ? await drawn.text() : "";
  if (turn === answers) drawChart(chart);
}

at("sign-in").onsubmit = (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
  tried(async () => {
    const me = await ask("/v1/me");
    at("title").textContent = me.title + ": " + me.analyst;
    const schema = await ask("/v1/query-schema");
    schemas = Object.fromEntries(schema.oneOf.map(({ properties }) => [properties.kind.const, properties]));
    await refresh();
    at("sign-in").hidden = true;
    for (const name of ["tables", "ask", "history"]) at(name).hidden = false;
    at("table").focus();
  });
};
at("table").onchange = () => { setPrice(null); tried(refresh); };
at("query").oninput = () => { complain(null); price(); };
at("form").oninput = (event) => {
  complain(null);
  if (event.target.id === "kind") fields(); else if (event.target.id !== "within") write();
};
at("form").onsubmit = (event) => event.preventDefault();
at("search").oninput = drawPast;
at("find").onclick = () => tried(async () => {
  const found = await ask("/v1/tables/" + chosen().name + "/accuracy", { query: query(), within: at("within").value.trim() });
  at("amount").value = found.amount;
  write();
});
at("dry").onclick = () => tried(async () => {
  const found = await ask("/v1/tables/" + chosen().name + "/dry-run", { query: query() });
  shown(found.outcome, true, found.numbers, found.chart, "", query());
});
at("release").onclick = () => tried(async () => {
  if (!priced || priced.name !== at("table").value || priced.text !== at("query").value) throw new Error("wait for the price of this query");
  const { asked, name, text, words: agreed } = priced, request = JSON.stringify([name, text]);
  const before = unread.has(request) ? " If the request that was sent before was charged, this is not charged again." : "";
  if (!confirm("This charges your budget and cannot be undone. " + agreed + before)) return;
  if (!unread.has(request)) unread.set(request, "page " + crypto.randomUUID());
  paying = at("release").disabled = true;
  try {
    let state = await askAgain("/v1/tables/" + name + "/releases", { query: asked }, { "Idempotency-Key": unread.get(request) });
    while (state.state === "queued" || state.state === "running") {
      const left = Math.max(0, (Date.parse(state.ready_at) - Date.now()) / 1000);
      at("wait").textContent = "Ready in " + Math.ceil(left) + " s.";
      await pause(Math.min(1, left + 0.2));
      state = await askAgain("/v1/releases/" + state.id);
    }
    unread.delete(request);
    at("wait").textContent = "The request is " + state.state + ".";
    if (state.outcome) await answered(state, asked);
    else throw new Error((state.problem || {}).detail || (state.problem || {}).title || "failed");
  } catch (error) {
    if (!unread.has(request)) throw error;
    at("wait").textContent = "";
    throw error.answered ? error : new Error("The connection was lost, and the request may have been charged. Ask for it again: it is charged once.");
  } finally {
    paying = false;
    price();  // what it leaves has changed
    await refresh().catch(complain);
  }
});
