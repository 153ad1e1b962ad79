// Text to rows: CSV as spreadsheets write it, and single values as people type them.

/** Read a number as people write it; null for what is none. */
function numberOf(text) {
  const plain = text.trim().replace(/^[−–]/, "-");
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain)) return null;
  const value = Number(plain);
  return Number.isFinite(value) ? value : null;
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
  let cells = [], cell = "", quoted = false, wasQuoted = false;
  const endCell = () => {
    cells.push(wasQuoted ? cell : cell.trim());
    cell = "";
    wasQuoted = false;
  };
  const endRow = () => {
    endCell();
    if (cells.some((each) => each !== "")) rows.push(cells);
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
      quoted = wasQuoted = true;
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
