// What asks before it acts, counts first, and shows how far it is.

import { act, view } from "./api.js";
import { bytes, make, number } from "./dom.js";

const dialog = document.getElementById("dialog");

function open(title, ...children) {
  dialog.replaceChildren(make("h2", { id: "dialog-title" }, title), ...children);
  if (!dialog.open) dialog.showModal();
}

function problem(error) {
  return make("p", { class: "bad", role: "alert" }, error.message);
}

// Ask for some fields; the values are given to `done`, whose error is shown.
export function form(title, fields, verb, done) {
  const inputs = fields.map(([name, label, options = {}]) => {
    const input = make("input", { name, type: options.type ?? "text", value: options.value ?? "", required: options.required ?? false,
      autocomplete: options.autocomplete ?? "off", placeholder: options.placeholder ?? "", min: options.min, max: options.max });
    return make("label", {}, label, input);
  });
  const told = make("div", {});
  open(title, make("form", { onsubmit: async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    told.replaceChildren();
    try {
      await done(given);
    } catch (error) {
      told.replaceChildren(problem(error));
    }
  } }, inputs, told, buttons(make("button", { type: "submit", class: "main" }, verb))));
}

export function close() {
  dialog.close();
}

function buttons(...more) {
  return make("div", { class: "end" }, make("button", { type: "button", onclick: close }, "Cancel"), ...more);
}

// One question, one call.
export function confirm(title, text, verb, call, after) {
  const told = make("div", {});
  const sure = make("button", { type: "button", class: "danger", onclick: async () => {
    sure.disabled = true;
    try {
      await call();
      close();
      after();
    } catch (error) {
      sure.disabled = false;
      told.replaceChildren(problem(error));
    }
  } }, verb);
  open(title, make("p", {}, text), told, buttons(sure));
}

// An operation on all messages that match: count, ask, do, with progress; it may be cancelled.
export async function operate(title, action, given, after, isDangerous = false) {
  open(title, make("p", { role: "status" }, "Counting …"), buttons());
  let counted;
  try {
    counted = await act(action, { ...given, dry_run: true });
    while (counted.state === "running" && dialog.open) {
      await pause(200);
      counted = await view("operation", { operation_id: counted.operation_id });
      if (dialog.open) open(title, make("p", { role: "status" }, `${number(counted.matched)} counted …`), buttons());
    }
    if (!dialog.open) return void act("cancel", { operation_id: counted.operation_id }).catch(() => {});
    if (counted.state === "failed") throw new Error(counted.error);
  } catch (error) {
    open(title, problem(error), buttons());
    return;
  }
  const sure = make("button", { type: "button", class: isDangerous ? "danger" : "main", disabled: !counted.matched,
    onclick: () => run(title, action, given, counted.matched, after) }, `${title}: ${number(counted.matched)} messages`);
  const where = `of ${counted.destination}${counted.target ? ` to ${counted.target}` : ""}`;
  open(title, make("p", {}, make("strong", {}, number(counted.matched)), ` messages ${where} match (${counted.filter}), `
    + `${bytes(counted.bytes)}. What a consumer holds stays.`), buttons(sure));
  sure.focus();
}

async function run(title, action, given, expected, after) {
  const bar = make("progress", { max: expected || 1, value: 0 });
  const text = make("p", { role: "status" }, "0 done");
  let operation;
  const cancel = make("button", { type: "button", onclick: () => act("cancel", { operation_id: operation?.operation_id }) }, "Stop here");
  open(title, bar, text, make("div", { class: "end" }, cancel));
  try {
    operation = await act(action, given);
    while (operation.state === "running") {
      await pause(300);
      operation = await view("operation", { operation_id: operation.operation_id });
      bar.value = operation.done;
      text.textContent = `${number(operation.done)} of ${number(expected)} done`;
    }
  } catch (error) {
    open(title, problem(error), buttons());
    return;
  }
  const stay = operation.skipped ? ` ${number(operation.skipped)} stay: a consumer has them, or there is no place for them.` : "";
  const failed = operation.error ? make("p", { class: "bad" }, operation.error) : null;
  open(title, make("p", { role: "status" }, `${number(operation.done)} messages ${operation.state}.${stay}`), failed,
    make("div", { class: "end" }, make("button", { type: "button", class: "main", onclick: () => { close(); after(); } }, "Close")));
}

function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}
