// Makes elements. Text is always text: nothing of a broker is ever read as HTML.

export function make(name, given = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key in element && typeof value !== "string") element[key] = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(name, given = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(given)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

export function link(path, query, ...children) {
  return make("a", { href: address(path, query) }, ...children);
}

export function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return text ? `${path}?${text}` : path;
}

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function number(value) {
  if (value === null || value === undefined) return "–";
  return Number.isInteger(value) ? whole.format(value) : short.format(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${short.format(value)} ${units[unit]}`;
}

export function age(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= size) return `${short.format(seconds / size)} ${unit}`;
  }
  return `${short.format(seconds)} s`;
}

export function ageOf(epochMs) {
  return epochMs === null || epochMs === undefined ? "–" : age(Math.max(Date.now() - epochMs, 0) / 1000);
}

export function time(epochMs) {
  if (!epochMs) return "–";
  return new Date(epochMs).toISOString().replace("T", " ").replace("Z", "");
}

// A table. Columns are [title, cell, options]: a cell is text or an element. On a phone each row is a small page of its
// own with the titles beside the values, so elements say what they are, whatever the style sheet makes of them.
export function table(caption, columns, rows, empty, sorting) {
  if (!rows.length) return make("p", { class: "quiet" }, empty);
  const heads = columns.map(([title, , options = {}]) => {
    const names = [options.number && "number", options.optional && "optional"].filter(Boolean).join(" ");
    if (!sorting || !options.sort) return make("th", { scope: "col", role: "columnheader", class: names || null }, title);
    const isSorted = sorting.by === options.sort;
    const order = isSorted ? (sorting.isDescending ? "descending" : "ascending") : "none";
    const mark = isSorted ? (sorting.isDescending ? " ▾" : " ▴") : "";
    return make("th", { scope: "col", role: "columnheader", class: `${names} sortable`.trim(), "aria-sort": order },
      make("button", { type: "button", onclick: () => sorting.sort(options.sort) }, title + mark));
  });
  const lines = rows.map((row) => make("tr", { role: "row" }, columns.map(([title, cell, options = {}]) => {
    const names = [options.number && "number", options.optional && "optional", options.box && "box"].filter(Boolean).join(" ");
    const shown = cell(row);
    return make("td", { role: "cell", class: names || null, "data-title": title || null },
      shown === null || shown === undefined ? "" : shown);
  })));
  return make("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption },
    make("table", { role: "table" }, make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, heads)),
      make("tbody", { role: "rowgroup" }, lines)));
}

export function tiles(pairs) {
  return make("dl", { class: "tiles" }, pairs.map(([name, value, kind]) =>
    make("div", { class: "tile" }, make("dt", {}, name), make("dd", { class: kind || null }, value))));
}

export function pairs(entries) {
  return make("dl", { class: "pairs" }, entries.flatMap(([name, value]) =>
    [make("dt", {}, name), make("dd", {}, value === null || value === undefined || value === "" ? "–" : value)]));
}
