// Plots of the last hour: two lines at most, with a reading under the pointer.

import { make, number, svg } from "./dom.js";

const WIDTH = 600, HEIGHT = 140, LEFT = 8, BOTTOM = 18, TOP = 14;

// `shown` makes text of a value.
export function plot(title, samples, lines, shown = number) {
  const values = lines.map(([, field]) => samples.map((sample) => sample[field]));
  const most = nice(Math.max(0, ...values.flat().filter((value) => value !== null)));
  const first = samples.length ? samples[0].at_ms : 0, last = samples.length ? samples.at(-1).at_ms : 1;
  const x = (at) => LEFT + (WIDTH - 2 * LEFT) * (last > first ? (at - first) / (last - first) : 1);
  const y = (value) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (most ? value / most : 0);
  const drawing = svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  drawing.setAttribute("aria-label", described(title, samples, lines, shown));
  for (const part of [0, 0.5, 1]) {
    drawing.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - LEFT, y1: y(most * part), y2: y(most * part) }));
  }
  lines.forEach((_, place) => {
    const points = samples.map((sample, at) => [sample, values[place][at]]).filter(([, value]) => value !== null)
      .map(([sample, value]) => `${x(sample.at_ms).toFixed(1)},${y(value).toFixed(1)}`);
    drawing.append(svg("polyline", { class: place ? "second" : "first", points: points.join(" ") }));
  });
  const cursor = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  drawing.append(cursor);
  const reading = make("span", { class: "quiet" });
  const rest = () => {
    cursor.setAttribute("visibility", "hidden");
    reading.textContent = samples.length ? `up to ${shown(most)}` : "nothing yet";
  };
  drawing.addEventListener("pointermove", (event) => {
    if (!samples.length) return;
    const box = drawing.getBoundingClientRect();
    const at = first + (last - first) * Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    const sample = samples.reduce((best, one) => Math.abs(one.at_ms - at) < Math.abs(best.at_ms - at) ? one : best);
    cursor.setAttribute("x1", x(sample.at_ms));
    cursor.setAttribute("x2", x(sample.at_ms));
    cursor.setAttribute("visibility", "visible");
    const values = lines.map(([name, field]) => `${name} ${sample[field] === null ? "–" : shown(sample[field])}`).join(", ");
    reading.textContent = `${new Date(sample.at_ms).toLocaleTimeString()}: ${values}`;
  });
  drawing.addEventListener("pointerleave", rest);
  rest();
  const keys = lines.map(([name], place) => make("span", { class: place ? "key-second" : "key-first" }, name));
  const span = samples.length > 1 ? `last ${Math.max(1, Math.round((last - first) / 60000))} min` : "";
  return make("figure", {}, make("figcaption", {}, make("strong", {}, title), make("span", {}, ...join(keys)), reading),
    drawing, make("span", { class: "quiet" }, span));
}

function described(title, samples, lines, shown) {
  if (!samples.length) return `${title}: nothing yet`;
  const now = samples.at(-1);
  const told = lines.map(([name, field]) => `${name} is ${now[field] === null ? "not known" : shown(now[field])}, the most was `
    + shown(Math.max(...samples.map((sample) => sample[field] ?? 0))));
  return `${title}: ${told.join("; ")}`;
}

function join(elements) {
  return elements.flatMap((element, place) => (place ? [" · ", element] : [element]));
}

function nice(value) {
  if (value <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((part) => part * size).find((part) => part >= value);
}
