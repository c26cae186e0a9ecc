// Asks the broker, as whoever is logged in.

import { address } from "./dom.js";

let csrf = "";

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new Refused(0, "The broker does not answer. This page goes on when it does.");
  }
  const value = await answer.json().catch(() => ({ error: `the broker answers with ${answer.status}` }));
  if (!answer.ok) throw new Refused(answer.status, value.error ?? String(answer.status));
  return value;
}

export function view(name, query = {}) {
  return ask(address(`/api/v1/${name}`, query), {});
}

export function act(name, given = {}) {
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": csrf };
  return ask(`/api/v1/${name}`, { method: "POST", headers, body: JSON.stringify(given) });
}

export async function session() {
  const told = await view("session");
  csrf = told.csrf;
  return told;
}
